"""From MODEL and the options to a study of its heads."""

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from transformers import PreTrainedModel

from attncli.analysis import Study
from attncli.analysis.heads.forward_passes.head_observer import (
    PassRequest,
    ignore_progress_share,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.model_inspection import (
    HeadPlan,
    Inspection,
    inspect_model,
)
from attncli.analysis.heads.prepare_softmax_attention_heads import (
    list_available_heads,
    refuse_no_config,
    refuse_nonexistent_heads,
    refuse_nonexistent_layers,
)
from attncli.analysis.load_and_verify_model import HEADS, PreparedModel, Requirement, prepare_model
from attncli.capture.linear_attention.linear_attention_heads import LinearAttentionLayer
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.commands.inspect_model.options import InspectionOptions
from attncli.declare.dry_run import stop_dry_run_before_model_load
from attncli.maths.number_format import format_short_number
from attncli.model_and_file_sources import Source
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.model_input import ModelInput
from attncli.models.inputs.requested_inputs import check_config_and_tokenizer, make_model_inputs
from attncli.models.loading.load_model import load_model
from attncli.models.loading.loaded_model import LoadedModel, remove_model_head
from attncli.models.loading.memory_estimate import require_memory_to_run
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.options.head_selection import HeadOptions
from attncli.options.model_and_input import InputOptions, ModelOptions
from attncli.progress import Say
from attncli.python.questions import RunContext

LONG_TEXT, REHEARSED = 2048, 512
"""From LONG_TEXT tokens on, announce how long linear layers take, estimated on REHEARSED tokens."""
WORTH_SAYING = 60.0
"""Seconds."""


def prepare_model_inspection(
    source: Source,
    options: InspectionOptions,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    how: RunContext,
) -> Study:
    """Choose, load and verify everything before the first text is read."""
    plan = options.plan_head_measurements(heads)
    loading = model.build_model_load_options(options.seed)
    requested = inputs.build_requested_input(options.tokens, options.seed)
    stop_dry_run_before_model_load()
    checkpoint = load_model(
        source, loading, partial(check_layer_indices_and_text_lengths, plan, requested)
    )
    texts = make_model_inputs(checkpoint, requested)
    subject = prepare_attention_heads_of_model(checkpoint.model_without_head, texts[0])
    if heads.layers or heads.heads:
        refuse_nonexistent_heads(list_available_heads(subject), plan)
    if subject.linear.layers and not options.metric_names:
        plan = replace(plan, metrics=plan.metrics.add_linear_layer_metrics())
    longest = max(text.tokens for text in texts)
    if longest >= LONG_TEXT and subject.linear.layers:
        report_estimated_duration(subject, plan, longest, how.say)
    advice = "cut it with `tokens`, or lower `strip_memory`"
    require_memory_to_run(subject.body, longest, plan.strip_memory, advice=advice)
    random_init = (
        prepare_random_init_control(checkpoint, texts[0], options.seed)
        if options.with_random_init
        else None
    )
    study: Inspection = partial(inspect_model, checkpoint, subject, random_init, texts, plan)
    save, draws = options.save_maps, how.pictures and bool(heads.heads)
    if how.maps:
        from attncli.commands.inspect_model.attention_map_export import add_map_thumbnails

        named = bool(heads.list_options_that_are_set() or save)
        study = add_map_thumbnails(study, subject, plan, texts[0], named)
    if save is not None or draws:
        from attncli.commands.inspect_model.attention_map_export import (
            prepare_map_collection,
            save_or_plot_collected_maps,
        )

        collected = prepare_map_collection(subject, plan, texts[0], save, how.say)
        return save_or_plot_collected_maps(
            study, collected, texts[0], checkpoint.identity, save, draws
        )
    return study


def prepare_attention_heads_of_model(
    body: PreTrainedModel, text: ModelInput | None = None
) -> PreparedModel:
    """The model's attention and its linear layers; a module of another origin may have no blocks."""
    return prepare_model(
        body,
        text,
        HEADS | Requirement.LINEAR,
        without_attention="linear",
        without_blocks="go on" if isinstance(body, ForeignModule) else "refuse",
    )


def prepare_random_init_control(
    checkpoint: LoadedModel, text: ModelInput, seed: int
) -> PreparedModel:
    """The same architecture with random weights, as a control."""
    from attncli.models.loading.random_init import make_random_init_model

    refuse_no_config(checkpoint.model_without_head)
    return prepare_attention_heads_of_model(
        remove_model_head(make_random_init_model(checkpoint.model, seed)), text
    )


def check_layer_indices_and_text_lengths(
    plan: HeadPlan, requested: RequestedInput, checkpoint: LoadedModel
) -> Any:
    """Check config and tokenizer before weights are read: for missing layers, and texts that are too
    long."""
    refuse_nonexistent_layers(checkpoint, plan)
    return check_config_and_tokenizer(requested, checkpoint)


def report_estimated_duration(
    subject: PreparedModel, plan: HeadPlan, tokens: int, say: Say
) -> None:
    """Announce how long maps of linear layers take, from one layer of each kind on a short text;
    skip short runs."""
    linear = subject.linear.select_measured_heads(plan.layers, plan.selects)
    kinds: dict[str, list[LinearAttentionLayer]] = {}
    for layer in linear.layers:
        kinds.setdefault(layer.mixer_function_name, []).append(layer)
    seconds = 0.0
    for layers in kinds.values():
        one = frozenset({layers[0].site.layer})
        spent = estimate_seconds_of_forward(
            subject, replace(plan, layers=one, metrics=choose_metrics(["entropy"]))
        )
        # each row goes back over all tokens
        power = 2 if layers[0].shortcuts.state is not None else 3
        seconds += len(layers) * spent * (tokens / REHEARSED) ** power
    if seconds >= WORTH_SAYING:
        say(
            f"maps of {len(linear.layers)} linear layers over {tokens} tokens: about {format_short_number(seconds / 60, 2)} minutes; `layers` "
            "chooses fewer"
        )


def estimate_seconds_of_forward(subject: PreparedModel, plan: HeadPlan) -> float:
    """Seconds for one forward pass on a short text."""
    example_inputs = make_example_inputs(subject.body, REHEARSED)
    requested, linear = (
        PassRequest(plan.metrics.heads, layers=plan.layers),
        subject.linear.select_measured_heads(plan.layers, plan.selects),
    )
    start = perf_counter()
    measure_forward_pass(
        subject.body,
        subject.stacks,
        example_inputs,
        requested,
        UniformAttentionControl(),
        "a short text",
        ignore_progress_share,
        strip_memory=plan.strip_memory,
        linear=linear,
        apart=subject.uncapturable_module_paths,
    )
    return perf_counter() - start
