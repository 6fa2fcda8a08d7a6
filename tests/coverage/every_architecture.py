"""Every model type of transformers, tiny and random: is it built, does it run, is its attention seen, are its blocks understood?

    python tests/coverage/every_architecture.py [--types bert,gpt2] [--jobs 2] [-o attncli/models/random/architectures.tsv]

Each type has a process of its own, forked from one that has transformers loaded, with limits on time and memory. The
table holds one line per type, sorted; with --types only those lines of an existing table change.
"""

import argparse
import math
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from attncli.ablation import recognise_block_anatomy
from attncli.analysis.rank_collapse.metrics_over_layers import Trajectory
from attncli.analysis.rank_collapse.model_variant_runs import (
    CollapseModel,
    run_model_variants_on_text,
)
from attncli.capture import verify_capture
from attncli.capture.linear_attention.linear_attention_capture import find_linear_attention_layers
from attncli.capture.model_structure.blocks import (
    find_attention_free_block_stacks,
    find_block_stacks,
)
from attncli.capture.other_mixers.token_mixers import find_token_mixers
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.capture.verify_captured_attention import (
    NOTHING_ATTENDS,
    VerifiedCapture,
    list_output_tensors,
)
from attncli.errors import InputError, NoAttention
from attncli.models.inputs.model_input import ModelInput
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model
from attncli.networks.ablation_variants import VARIANTS

TABLE = Path(__file__).parents[2] / "attncli" / "models" / "random" / "architectures.tsv"
SECONDS = 600
MEMORY = 8 * 2**30
LONGEST = 200
"""Letters of a reason."""
NO_ATTENTION = "no attention"
UNDERSTOOD = "understood"
RESIDUAL = "log10_residual"
RESOLVED, EQUAL = -8.0, 1e-6
"""log10 r above which subtraction has digits, and how well they must agree there."""


@dataclass
class Result:
    """One line of the table; each field says yes by a word, or why not."""

    type: str
    model_class: str = ""
    parameters: str = ""
    inputs: str = ""
    runs: str = ""
    """float64, or float32 where the code does not run in float64; `draws` where two runs differ."""
    capture: str = ""
    """strips, watched, or both; `no attention`; or `refused: …`."""
    difference: str = ""
    """Of the output under capture from eager, relative to its size: below this power of ten."""
    ablation: str = ""
    """understood, or `refused: …`."""
    mixers: str = ""
    """What mixes tokens in its layers beside attention."""
    exact: str = ""
    """equal: residuals carried apart are those of subtraction wherever that has digits; or `refused: …`."""
    linear: str = ""
    """Which of the mixers have exact maps."""


def examined(kind: str) -> Result:
    """All that is to be known of one type."""
    result = Result(kind)
    try:
        model = build_model(kind, {"tiny": ""}, seed=0, dtype=torch.float64)
        result.model_class = type(model).__name__
        result.parameters = str(sum(parameter.numel() for parameter in model.parameters()))
        inputs = make_example_inputs(model)
        result.inputs = ",".join(inputs)
        model, inputs, result.runs = running(kind, model, inputs)
    except Exception as error:
        result.runs = f"no: {reason(error)}"
        return result
    model.config.use_cache = False  # as every model is loaded
    with home(model):
        proof, result.capture = try_capture(model, inputs)
        if proof.sites:
            result.difference = power_of_ten(proof.difference)
        if proof.sites or (result.capture == NO_ATTENTION and "input_ids" in inputs):
            result.mixers, result.linear = try_mixers(model, inputs, proof)
        if result.capture != NO_ATTENTION or result.mixers:
            anatomy, result.ablation = try_ablation(model, inputs)
            if anatomy and model.dtype == torch.float64:
                result.exact = try_exact(model, inputs, proof, anatomy)
    return result


def running(
    kind: str, model: PreTrainedModel, inputs: Mapping[str, Any]
) -> tuple[PreTrainedModel, Mapping[str, Any], str]:
    """The model in the most precise dtype that its code runs in."""
    try:
        return model, inputs, f"float64{steadiness(model, inputs)}"
    except Exception:  # what float32 says counts
        model = build_model(kind, {"tiny": ""}, seed=0)
        inputs = make_example_inputs(model)
        return model, inputs, f"float32{steadiness(model, inputs)}"


def steadiness(model: PreTrainedModel, inputs: Mapping[str, Any]) -> str:
    """Run twice; nan is no answer, and two answers mean that the forward draws random numbers."""
    with torch.no_grad(), home(model):
        first, second = (list_output_tensors(model(**inputs)) for _ in range(2))
    if any(bool(value.isnan().any()) for value in first):
        raise ValueError("its output is not a number")
    same = len(first) == len(second) and all(map(torch.equal, first, second))
    return "" if same else ", draws"


def home(model: PreTrainedModel) -> AbstractContextManager[None]:
    """Where the model's dtype stays what it is."""
    return force_float64() if model.dtype == torch.float64 else nullcontext()


def try_capture(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[VerifiedCapture, str]:
    try:
        proof = verify_capture(model, inputs)
    except NoAttention:
        return NOTHING_ATTENDS, NO_ATTENTION
    except Exception as error:
        return NOTHING_ATTENDS, f"refused: {reason(error)}"
    ways = {"watched" if site in proof.whole_maps else "strips" for site in proof.sites}
    return proof, " and ".join(sorted(ways))


def try_ablation(model: PreTrainedModel, inputs: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        return recognise_block_anatomy(model, inputs), UNDERSTOOD
    except Exception as error:
        return None, f"refused: {reason(error)}"


def try_exact(
    model: PreTrainedModel, inputs: Mapping[str, Any], proof: VerifiedCapture, anatomy: Any
) -> str:
    """Whether common row and residual can be carried apart through every variant, to what subtraction finds."""
    try:
        subtracted, exact = (
            residuals(CollapseModel(model, anatomy, how, proof.eager_alone), inputs)
            for how in (False, True)
        )
    except Exception as error:
        return f"refused: {reason(error).partition(': leave `exact`')[0]}"
    apart = max(map(worst_difference, subtracted, exact))
    if apart == math.inf:
        return "refused: a residual that subtraction knows is lost on the way"
    return "equal" if apart < EQUAL else f"differs: by {apart:.1g} in log10 r"


def residuals(subject: CollapseModel, inputs: Mapping[str, Any]) -> list[Trajectory]:
    """log10 r at every state, of every variant and stack in a fixed order."""
    text = ModelInput("text", "token ids", dict(inputs), 0)
    found = run_model_variants_on_text(subject, text, VARIANTS, [RESIDUAL], lambda: None)
    return [curve for curves in found.values() for curve in curves.values()]


def worst_difference(subtracted: Trajectory, exact: Trajectory) -> float:
    """Largest difference of log10 r where subtraction has digits left.

    It loses 10^-16/r of a residual, a little more in deep or wide blocks: above 10^-8 an error below 1e-6 in log10 r. Where
    rounding moves it by more, it has none: MLPs without skips grow any difference, and over a hundred layers of them the
    last bit of a number is the first digit of r.
    """
    curves = subtracted.values[RESIDUAL], subtracted.uncertain[RESIDUAL], exact.values[RESIDUAL]
    resolved = [
        (a, b) for a, by, b in zip(*curves, strict=True) if a > RESOLVED and by < EQUAL / 10
    ]
    return max((abs(a - b) if math.isfinite(b) else math.inf for a, b in resolved), default=0.0)


def try_mixers(
    model: PreTrainedModel, inputs: Mapping[str, Any], proof: VerifiedCapture
) -> tuple[str, str]:
    """And those that have maps; none where the model's layers are not found: `ablation` says so."""
    tokens = max((value.shape[1] for value in inputs.values() if value.dim() >= 2), default=0)
    shapes = proof.shapes
    try:
        find_stacks = find_block_stacks if proof.sites else find_attention_free_block_stacks
        stacks = find_stacks(model, inputs)
    except InputError:
        return "", ""
    found = find_token_mixers(model, stacks, inputs, shapes, tokens)
    kinds = tuple(dict.fromkeys(mixer.kind for mixer in found))
    lengths = {shape.queries for shape in shapes.values()} or {tokens}
    linear = (
        find_linear_attention_layers(model, found, inputs, *sorted(lengths)).kinds
        if found
        else frozenset()
    )
    return ", ".join(kinds), ", ".join(kind for kind in kinds if kind in linear)


def power_of_ten(number: float) -> str:
    """The power above it: a table that is made again differs only where something changed."""
    return f"1e{math.ceil(math.log10(number))}" if number > 0 else "0"


def reason(error: Exception) -> str:
    """One line, without the error's class where it is one of ours."""
    said = " ".join(str(error).split())[:LONGEST]
    ours = type(error).__module__.startswith("attncli")
    return said if ours else f"{type(error).__name__}: {said}"


def guarded(kind: str) -> Result:
    """`examined` in a process of its own."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=worker, args=(kind, there))
    process.start()
    there.close()
    try:
        return Result(**here.recv())
    except EOFError:
        process.join()
        late = process.exitcode == -signal.SIGALRM
        return Result(kind, runs=f"no: {f'more than {SECONDS} s' if late else 'it crashed'}")
    finally:
        process.join()


def worker(kind: str, answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(SECONDS)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the process ends with it
    with silence_libraries():
        answer.send(asdict(examined(kind)))


def table(results: Mapping[str, Result]) -> str:
    """Tab-separated, one line per type; what is empty at its end is left out."""
    lines = [[field.name for field in fields(Result)]]
    lines += [list(asdict(results[kind]).values()) for kind in sorted(results)]
    return "".join("\t".join(line).rstrip("\t") + "\n" for line in lines)


def read(path: Path) -> Iterator[Result]:
    for line in path.read_text().splitlines()[1:]:
        yield Result(*line.split("\t"))


def summary(results: Mapping[str, Result]) -> str:
    every = results.values()
    counts = {
        "types": len(every),
        "built": sum(bool(result.model_class) for result in every),
        "run": sum(not result.runs.startswith("no") for result in every),
        "captured": sum(bool(result.difference) for result in every),
        "captured or linear": sum(bool(result.difference or result.linear) for result in every),
        "understood": sum(result.ablation == UNDERSTOOD for result in every),
        "exact": sum(result.exact == "equal" for result in every),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--types", help="comma separated; all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=TABLE)
    options = parser.parse_args()
    torch.set_num_threads(
        1
    )  # forked processes inherit it, and no threads that would not survive the fork
    kinds = options.types.split(",") if options.types else list(CONFIG_MAPPING_NAMES)
    known = list(read(options.output)) if options.types and options.output.exists() else []
    results = {result.type: result for result in known}
    with ThreadPool(options.jobs) as pool:
        for result in pool.imap_unordered(guarded, kinds):
            results[result.type] = result
            if sys.stderr.isatty():
                print(f"\r{len(results)} {result.type:40}", end="", file=sys.stderr)
    options.output.write_text(table(results))
    print(summary(results))


if __name__ == "__main__":
    main()
