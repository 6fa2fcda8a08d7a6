"""From the options of `attn head-capacity` to a survey of all trained heads, or to one head that shows patterns."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from attncli.analysis.fits.fit_rows import FIT_METRICS
from attncli.analysis.fits.target_and_fitted_map_pictures import add_map_pictures_of_fits
from attncli.analysis.fits.target_patterns import ChosenPatterns, collect_target_patterns
from attncli.analysis.fits.write_fit_files import write_fits
from attncli.analysis.heads.prepare_softmax_attention_heads import prepare_softmax_heads
from attncli.analysis.load_and_verify_model import FLOAT64_IF_IT_FITS, load_model_in_dtype
from attncli.analysis.source_argument_checks import resolve_source_argument
from attncli.commands.head_capacity.head_report_rows import SURVEY_METRICS
from attncli.commands.head_capacity.measure_trained_heads import (
    HeadCapacityPlan,
    measure_head_capacities,
)
from attncli.commands.head_capacity.model_for_real_tokens import (
    AddTokenInputs,
    load_model_for_token_inputs,
)
from attncli.commands.head_capacity.one_head.head_report import (
    HEAD_METRICS,
    REAL_METRICS,
    build_pattern_inputs_report,
)
from attncli.commands.head_capacity.one_head.inputs_for_pattern import (
    convert_inputs_to_saved_fits,
    find_inputs_for_patterns,
    refuse_rotary_head,
)
from attncli.errors import (
    AttnError,
    InputError,
    UsageError,
    choose_it_or_them,
    format_parameters_with_verb,
)
from attncli.fits import FitRequest
from attncli.gates import Condition, refuse_gates_on_unmeasured_metrics
from attncli.head_weights.trained_head import (
    Head,
    Reader,
    make_head_reader,
    read_head,
    require_scaled_product_logits,
)
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.model_input import ModelInput
from attncli.models.inputs.requested_inputs import check_config_and_tokenizer, make_model_inputs
from attncli.models.loading.loaded_model import LoadedModel, remove_model_head
from attncli.models.loading.memory_estimate import require_memory_to_run
from attncli.models.loading.random_init import make_random_init_model
from attncli.options.model_and_input import (
    CheckpointOptions,
    InputOptions,
    check_options_before_model_loading,
)
from attncli.options.pattern_approximation import MethodOptions, PatternOptions, RandomDrawOptions
from attncli.python.questions import RunContext
from attncli.records import Report

LONGEST = 128
"""Default number of tokens: the searches cost its square."""


def measure_capacity_of_all_heads(
    model: str,
    patterns: PatternOptions,
    inputs: InputOptions,
    search: MethodOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    files: CheckpointOptions,
    how: RunContext,
) -> Report:
    """Every head of a model on texts of one length."""
    source = resolve_source_argument(model, "head_capacity")
    seeds = run.list_seeds()
    longest = patterns.length or LONGEST
    check_options_before_model_loading(source, files, inputs, longest, seeds[0])
    requested = take_two_texts_by_default(inputs.build_requested_input(longest, seeds[0]))
    checkpoint = load_model_in_dtype(
        source,
        files.build_model_load_options(seeds[0]),
        FLOAT64_IF_IT_FITS,
        partial(check_config_and_tokenizer, requested),
    )
    texts = cut_texts_to_shortest(checkpoint, requested)
    require_memory_to_run(
        checkpoint.model_without_head, texts[0].tokens, 0, advice="cut it with `length`"
    )
    plan = HeadCapacityPlan(request, search.requested_fit_methods, search.widest, seeds)

    fetching = files.build_fetch_settings()

    @cache
    def open_weight_reader() -> Reader | AttnError:
        """Once for all heads, whether it can be or not."""
        try:
            return make_head_reader(*require_scaled_product_logits(model, fetching), fetching)
        except AttnError as error:
            return error

    def read_weights_of_head(layer: int, head: int) -> Head:
        if checkpoint.folder is None:
            raise InputError(
                "single heads are read from a saved model's files, and this one has none"
            )
        found = open_weight_reader()
        if isinstance(found, AttnError):
            raise found
        return found(layer, head)

    subject = prepare_softmax_heads(checkpoint.model_without_head)
    random_init = prepare_softmax_heads(
        remove_model_head(make_random_init_model(checkpoint.model, seeds[0]))
    )
    return measure_head_capacities(
        checkpoint, subject, random_init, texts, read_weights_of_head, plan, how.progress
    )


def find_pattern_inputs_of_head(
    model: str,
    head: str,
    real: bool,
    patterns: PatternOptions,
    texts: InputOptions,
    search: MethodOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    files: CheckpointOptions,
    how: RunContext,
) -> Report:
    """Find inputs that make one head show the patterns; `real`: also search the tokens of its
    model."""
    source = resolve_source_argument(model, "head_capacity(head=...)")
    trained = load_trained_head(str(source), head, files, how)
    add_real_tokens = load_model_for_token_inputs(str(source), trained, files) if real else None
    chosen = collect_target_patterns(patterns, texts, files, run.list_seeds()[0])
    if not chosen.models:
        refuse_model_run_options(texts, files, real)
    report = build_head_inputs_report(trained, chosen, search, request, run, how, add_real_tokens)
    return chosen.add_pattern_origins_to_report(
        report.with_verdicts(()) if search.allow_unmet else report
    )


def refuse_model_run_options(texts: InputOptions, files: CheckpointOptions, real: bool) -> None:
    """Refuse options for heads of models that are patterns where no pattern is one; `real`: the
    head's own model is run."""
    if idle := texts.list_options_that_are_set():
        raise UsageError(
            "texts and tokens are for heads of models: give `pattern='MODEL:LAYER.HEAD:top=4'`, or leave them out.",
            about=idle,
        )
    idle = [] if real else files.list_options_needing_model_run()
    if idle:
        raise UsageError(
            f"{format_parameters_with_verb(idle, 'is', 'are')} for models that are run, and none is: give `pattern='MODEL:LAYER.HEAD:top=4'`, or leave {choose_it_or_them(idle)} out.",
            about=idle,
        )


def load_trained_head(model: str, place: str, files: CheckpointOptions, how: RunContext) -> Head:
    """Load the trained head; refuse before the work one that the requested file or plot cannot
    represent."""
    head = read_head(model, place, files.build_fetch_settings())
    if how.pictures or how.save_module is not None:
        refuse_rotary_head(head)
    return head


def build_head_inputs_report(
    head: Head,
    chosen: ChosenPatterns,
    search: MethodOptions,
    request: FitRequest,
    run: RandomDrawOptions,
    how: RunContext,
    real: AddTokenInputs | None = None,
) -> Report:
    """Fit inputs of a trained head, with its mask, for every pattern; `real`: the model whose
    tokens are searched too."""
    if request.causal and not head.causal:
        raise UsageError(
            "`causal`: every query of this head sees all keys; leave it out.", about=["causal"]
        )
    save, seeds = how.save_module, run.list_seeds()
    targets = chosen.build_targets(seeds[0], head.causal)
    request = replace(request, d=head.query_key_width, causal=head.causal)
    found = find_inputs_for_patterns(
        head, targets, search.requested_fit_methods, request, seeds, how.progress
    )
    plain = how.maps and head.rotary is None  # a page can do without, a file and a plot cannot
    fits = (
        convert_inputs_to_saved_fits(head, found)
        if how.pictures or plain or save is not None
        else []
    )
    if save is not None:
        write_fits(save, fits, replace(request, dtype="float64"), how.say)
    report = build_pattern_inputs_report(head, found, request, seeds)
    if real is not None:
        report = real(report, head, found, request, seeds, how.progress)
    return add_map_pictures_of_fits(report, fits) if how.pictures or plain else report


def refuse_gates_on_other_metrics(conditions: Sequence[Condition]) -> None:
    """Refuse, before the work, gates on metrics that neither a survey nor one head has."""
    known = {*SURVEY_METRICS, *FIT_METRICS, *HEAD_METRICS, *REAL_METRICS}
    refuse_gates_on_unmeasured_metrics(conditions, known)


def take_two_texts_by_default(requested: RequestedInput) -> RequestedInput:
    """Default to two texts, since input dependence needs two."""
    has_texts = requested.texts or requested.text_file is not None or requested.token_ids
    return (
        requested
        if has_texts
        else replace(requested, own_texts=2, samples=max(2, requested.samples))
    )


def cut_texts_to_shortest(checkpoint: LoadedModel, requested: RequestedInput) -> list[ModelInput]:
    """Cut all texts to the shortest; special tokens are preserved."""
    texts = make_model_inputs(checkpoint, requested)
    shortest = min(text.tokens for text in texts)
    if shortest < 2:
        raise InputError("the shortest input has one token: a map needs two.")
    if all(text.tokens == shortest for text in texts):
        return texts
    if requested.text_file == "-":
        raise UsageError(
            f"`text_file` - holds texts of other lengths, and stdin is read once: give `length={shortest!r}`, or a file."
        )
    return make_model_inputs(checkpoint, replace(requested, tokens=shortest))
