"""Measured costs of maps of linear layers. Run: python tests/bench/linear_layers.py [KIND …]

A tiny random hybrid of 8 layers, float32, one thread; each pass in a process of its own.

plain     its own forward on 16384 tokens
default   the default set of heads and states, softmax and linear              wanted ≤ 300 MiB beyond the plain pass
one       the same of one linear layer, by `layers`                            time of a layer
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import threading
import time
from typing import Any

import torch

from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.commands.inspect_model.run import prepare_attention_heads_of_model
from attncli.models.inputs.model_input import ModelInput
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.random_models import build_model

KINDS = ("qwen3_next",)
TOKENS = int(os.environ.get("BENCH_TOKENS", "16384"))
PASSES = ("plain", "default", "one")


def text(count: int) -> ModelInput:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 1000, (1, count), generator=generator)
    return ModelInput("text", "", {"input_ids": ids}, count)


def inspected(subject: PreparedModel, plan: HeadPlan) -> Any:
    metrics = plan.metrics.add_linear_layer_metrics()
    on_text = tuple(name for name in metrics.heads if name not in metrics.repeated_token_metrics)
    return measure_forward_pass(
        subject.body,
        subject.stacks,
        text(TOKENS).kwargs,
        PassRequest(on_text, metrics.states, plan.layers),
        UniformAttentionControl(),
        "",
        lambda share: None,
        proved=subject.shapes,
        linear=subject.linear.select_measured_heads(plan.layers, plan.selects),
    )


def measured(kind: str, what: str) -> None:
    """What a pass adds to the memory of the loaded model, at most."""
    with silence_libraries():
        model = build_model(kind, {"tiny": "", "layers": 8, "vocab_size": 1000}, seed=0)
        subject = prepare_attention_heads_of_model(model)
    layer = subject.linear.layers[0].site.layer
    plan = HeadPlan(choose_metrics(()), frozenset({layer}) if what == "one" else None)
    before, start = resident(), time.perf_counter()
    most, running = before, True

    def watch() -> None:
        nonlocal most
        while running:
            most = max(most, resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with torch.no_grad(), silence_libraries():
        if what == "plain":
            model(**text(TOKENS).kwargs)
        else:
            inspected(subject, plan)
    running = False
    watcher.join()
    spent = time.perf_counter() - start
    print(
        f"{kind:12} {what:8} {(most - before) / 2**20:6.0f} MiB beyond the model, {spent:.0f} s",
        flush=True,
    )


def resident() -> int:
    """Bytes; not the peak since the start, which building the model sets."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    torch.set_num_threads(1)
    if "--pass" in sys.argv:
        measured(*sys.argv[-2:])
        return
    print(f"{TOKENS} tokens", flush=True)
    for kind in sys.argv[1:] or KINDS:
        for what in PASSES:
            subprocess.run([sys.executable, __file__, "--pass", kind, what], check=True)


if __name__ == "__main__":
    main()
