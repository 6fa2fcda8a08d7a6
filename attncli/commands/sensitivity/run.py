"""From the options of `attn sensitivity` to its report."""

from functools import partial

from attncli.analysis import Study
from attncli.analysis.paths.path_model_preparation import prepare_model_for_paths
from attncli.commands.sensitivity.measure_sensitivity import (
    measure_sensitivity,
    plan_sensitivity_measurement,
)
from attncli.errors import UsageError, format_count
from attncli.model_and_file_sources import Source
from attncli.models.loading.memory_estimate import estimate_run_memory, find_max_head_count
from attncli.options.model_and_input import InputOptions, WholeModelOptions
from attncli.progress import Say
from attncli.resource_limits import format_gibibytes, require_memory

MEANS = 2
"""Float32 maps per layer in memory for the sum over paths."""


def prepare_sensitivity_measurement(
    source: Source,
    directions: int | None,
    stack: str | None,
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
    say: Say,
) -> Study:
    """Announce and check the memory of the backward pass, which keeps every block's activations,
    before the work."""
    if directions is not None and directions < 1:
        raise UsageError(f"`directions={directions}`: it must be at least 1.")
    subject, texts = prepare_model_for_paths(source, model, inputs, tokens, seed, stack)
    body, blocks = subject.model_without_head, len(subject.stack.calls)
    plan = plan_sensitivity_measurement(subject, subject.short_input, directions, seed)
    longest = max(text.tokens for text in texts)
    heads = find_max_head_count(body)
    needed = blocks * (estimate_run_memory(body, longest, 0, heads) + 4 * MEANS * longest**2)
    what = f"gradients of {format_count(longest, 'token')} through {format_count(blocks, 'block')}"
    require_memory(needed, what, "cut the text with `tokens`")
    back = plan.choose_output_direction_count(longest)
    exact = " (exact)" if back == plan.width else f" (estimates; {plan.width} are exact)"
    say(
        f"{what}: about {format_gibibytes(needed)} at most, 1 forward and {back} backward passes a text{exact}"
    )
    return partial(measure_sensitivity, subject, texts, plan)
