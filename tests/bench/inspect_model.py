"""Measured costs of `attn inspect-model`, as ratios within one run. Run: python tests/bench/inspect_model.py

A random GPT-2 (124M) in float32, one thread, CPU time; plain = its own forward with sdpa on the same input.

(a) entropy alone, and the default set: heads, states, null, and the roles' own     ratio to plain; wanted ≤ 1.03, 1.05, 1.08 and
    short input; in one pass, in tiles of plain torch, by the models' own functions ≤ 1.08, 1.10, 1.15 at 1024, 2048, 4096 in one pass,
                                                                                    entropy in tiles ≤ 1.15, 1.12 at 1024, 2048
(b) spectra                                                                         ratio to plain; wanted ≤ 1.3, 1.5, 1.7
    and of the groups that no default set has, at 1024 tokens                       their ratios; wanted ≤ 3 of lazy
(c) output_attentions=True in eager mode with the same metrics from the kept maps   ratio to plain; --all-maps, 11 GB at 4096
(d) extra peak memory at 4096 tokens of plain, default and spectra
(e) 256 texts of 128 tokens by `inputs=`, entropy and default set, of a model of      ratio to batched plain forwards of 32 texts; wanted
    4 layers × 256; alone with --texts                                              ≤ 1.3; peak memory of 64 and of 256 texts
(f) 16384 tokens on a small causal model: time, and peak memory beyond the model    --long
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

import attncli as attn
from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.one_pass.compiled_library import SWITCH, find_library
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._metric_accumulator import measure_maps
from attncli.models.inputs.synthetic_texts import make_repeated_tokens
from attncli.models.random.random_models import build_model

REPEATS = 4
LENGTHS = (1024, 2048, 4096)
LONG, VERY_LONG = 4096, 16384
KEPT = ("rows", "summaries", "columns")
"""Kinds of metrics that are measured of whole maps."""
GROUPS = ("lazy", "sinks", "gates")


def tokens(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(0, 50_000, (1, count), generator=generator)}


def gpt2(positions: int) -> Any:
    return build_model("gpt2", {"n_positions": positions}, seed=0).base_model


def cpu(works: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """CPU seconds of each, the best of interleaved runs."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for index, work in enumerate(works):
            start = time.process_time()
            with torch.no_grad():
                work()
            best[index] = min(best[index], time.process_time() - start)
    return best


def inspected(model: Any, inputs: dict[str, torch.Tensor], *names: str) -> Callable[[], object]:
    """What the command measures on one text."""
    metrics, stacks = choose_metrics(names), find_block_stacks(model, tokens(12))
    repeated = make_repeated_tokens(model, 0)
    assert repeated is not None
    roles = metrics.repeated_token_metrics
    on_text = tuple(name for name in metrics.heads if name not in roles)

    def run() -> None:
        null = UniformAttentionControl()
        measure_forward_pass(
            model,
            stacks,
            inputs,
            PassRequest(on_text, metrics.states),
            null,
            "",
            lambda share: None,
        )
        if roles:
            wanted = PassRequest(roles, period=repeated.period)
            measure_forward_pass(
                model, stacks, repeated.kwargs, wanted, null, "", lambda share: None
            )

    return run


def with_kernel(setting: str, work: Callable[[], object]) -> Callable[[], object]:
    """The same in tiles (`off`), or by the models' own functions (`own`)."""

    def run() -> None:
        os.environ[SWITCH] = setting
        try:
            work()
        finally:
            del os.environ[SWITCH]

    return run


def kept(model: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
    """All maps at once, then the default metrics."""
    names = [name for name in choose_metrics(()).heads if ATTENTION.spec(name).of in KEPT]
    count = inputs["input_ids"].shape[1]
    visible = torch.ones(count, count).tril().bool()[None, None]

    def run() -> None:
        model.set_attn_implementation("eager")
        try:
            for weights in model(**inputs, output_attentions=True).attentions:
                measure_maps(weights, names, visible=visible)
        finally:
            model.set_attn_implementation("sdpa")

    return run


def cost(model: Any, count: int) -> None:
    inputs = tokens(count)
    entropy, default = inspected(model, inputs, "entropy"), inspected(model, inputs)
    sets = [
        each
        for own in (entropy, default)
        for each in (own, with_kernel("off", own), with_kernel("own", own))
    ]
    works = [
        lambda: model(**inputs),
        *sets,
        inspected(model, inputs, "spectra"),
        *[kept(model, inputs)] * ("--all-maps" in sys.argv),
    ]
    plain, *own = cpu(works, REPEATS if count < LONG else 2)
    spectra, maps = own[len(sets)], own[len(sets) + 1 :]
    one, other = (
        f"{own[at] / plain:.2f} × ({own[at + 1] / plain:.2f} ×, {own[at + 2] / plain:.2f} ×)"
        for at in (0, 3)
    )
    more = "".join(f", kept maps {each / plain:.2f} ×" for each in maps)
    print(
        f"{count:5} tokens: plain {plain:6.2f} s, entropy {one}, default {other}, spectra {spectra / plain:.2f} ×{more}",
        flush=True,
    )


def groups(model: Any, count: int) -> None:
    """What is asked for by name, each group by itself."""
    inputs = tokens(count)
    works = [lambda: model(**inputs), *(inspected(model, inputs, name) for name in GROUPS)]
    plain, *each = cpu(works, 2)
    costs = [f"{name} {one / plain:.2f} ×" for name, one in zip(GROUPS, each, strict=True)]
    print(f"{count:5} tokens, by group: {', '.join(costs)}", flush=True)


def peak(what: str, count: int) -> None:
    """In a process of its own: what the work adds to the memory of the loaded model."""
    sizes = {"n_positions": count}
    if count == VERY_LONG:
        sizes |= {"layers": 2, "width": 64, "heads": 4}
    model = build_model("gpt2", sizes, seed=0).base_model
    inputs = tokens(count)
    works = {
        "plain": lambda: model(**inputs),
        "default": inspected(model, inputs),
        "spectra": inspected(model, inputs, "spectra"),
    }
    with torch.no_grad():
        model(**tokens(16))
    start = time.perf_counter()
    most = measure_peak(works[what])
    print(
        f"      {what:8} {most / 2**20:6.0f} MiB beyond the model, {time.perf_counter() - start:.0f} s",
        flush=True,
    )


def measure_peak(work: Callable[[], object]) -> int:
    """Bytes that the work takes at most."""
    before = resident()
    most, running = before, True

    def watch() -> None:
        nonlocal most
        while running:
            most = max(most, resident())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with torch.no_grad():
        work()
    running = False
    watcher.join()
    return most - before


def many_texts(count: int) -> None:
    """The whole question, preparation and report included."""
    model = build_model("gpt2", {"layers": 4, "width": 256, "heads": 8}, seed=0).base_model
    ids = tokens(128 * count)["input_ids"].view(count, 128)
    texts = [{"input_ids": each[None]} for each in ids]
    attn.inspect_model(model, inputs=texts[:8])
    works = [
        lambda: [model(input_ids=batch) for batch in ids.split(32)],
        lambda: attn.inspect_model(model, inputs=texts, metric="entropy"),
        lambda: attn.inspect_model(model, inputs=texts),
    ]
    plain, entropy, default = cpu(works, 2)
    print(
        f"{count:5} texts: plain {plain:6.2f} s, entropy {entropy / plain:.2f} ×, default {default / plain:.2f} ×, "
        f"{measure_peak(works[2]) / 2**20:.0f} MiB beyond the model",
        flush=True,
    )


def resident() -> int:
    """Bytes; not the peak since the start, which building the model sets."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peaks(count: int) -> None:
    print(f"peak memory at {count} tokens:", flush=True)
    for what in ("plain", "default", "spectra"):
        subprocess.run([sys.executable, __file__, "--peak", what, str(count)], check=True)


def main() -> None:
    torch.set_num_threads(1)
    if "--peak" in sys.argv:
        peak(sys.argv[-2], int(sys.argv[-1]))
        return
    if "--texts" in sys.argv:
        many_texts(64)
        many_texts(256)
        return
    library = find_library()
    print(
        f"in one pass (in brackets in tiles, and by the models' own functions): {getattr(library, 'instructions', library)}",
        flush=True,
    )
    model = gpt2(max(LENGTHS))
    for count in LENGTHS:
        cost(model, count)
    groups(model, LENGTHS[0])
    many_texts(64)
    many_texts(256)
    peaks(LONG)
    if "--long" in sys.argv:
        peaks(VERY_LONG)


if __name__ == "__main__":
    main()
