"""From MODEL and the options of `attn rank-collapse` to its report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from attncli.declare.dry_run import stop_dry_run_before_model_load
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.model_and_file_sources import Source
from attncli.networks.ablation_variants import AblationSwitches
from attncli.options.model_and_input import (
    AUTO,
    EXACTLY,
    PLAIN,
    InputOptions,
    ModelOptions,
    check_options_before_model_loading,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.analysis import MetricStudy
    from attncli.analysis.load_and_verify_model import PreparedModel
    from attncli.analysis.rank_collapse.model_variant_runs import CollapseModel
    from attncli.models.inputs.model_input import ModelInput
    from attncli.models.loading.loaded_model import LoadedModel
    from attncli.progress import Progress
    from attncli.records import Report


def prepare_model_collapse_study(
    source: Source,
    variants: Mapping[str, AblationSwitches],
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
    arithmetic: str,
    with_random_init: bool,
    sub_blocks: bool,
    over: int = 1,
    theorem: bool = False,
) -> "MetricStudy":
    """Load, verify and examine the model before the first curve is measured."""
    check_options_before_model_loading(source, model, inputs, tokens, seed)
    requested = inputs.build_requested_input(tokens, seed)
    stop_dry_run_before_model_load()
    from attncli.analysis import load_and_verify_model
    from attncli.analysis.rank_collapse.findings_and_headlines import RANDOM_SUFFIX
    from attncli.commands.rank_collapse.trained_model_rank_collapse import measure_model_collapse
    from attncli.models.inputs.requested_inputs import check_config_and_tokenizer, make_model_inputs
    from attncli.models.loading.loaded_model import remove_model_head

    options = model.build_model_load_options(seed)
    ahead = partial(check_config_and_tokenizer, requested)
    checkpoint = load_and_verify_model.load_model_in_dtype(
        source, options, load_and_verify_model.FLOAT64_IF_IT_FITS, ahead
    )
    texts = make_model_inputs(checkpoint, requested)
    refuse_texts_of_one_token(texts)
    why_plain = explain_why_no_variant_is_exact(checkpoint.model, model, arithmetic)
    first = load_and_verify_model.prepare_model(
        checkpoint.model_without_head, texts[0], load_and_verify_model.Requirement.ANATOMY
    )
    size = count_input_elements(first.short.kwargs)  # some images and sounds have one size
    cheap = all(size < count_input_elements(text.kwargs) for text in texts)
    subjects = {"": build_model_for_variant_runs(first, variants, cheap, arithmetic, why_plain)}
    require_memory_for_longest_text(first, texts, subjects[""].needs_model_arithmetic(variants))
    if with_random_init:
        from attncli.models.loading.random_init import make_random_init_model

        drawn = make_random_init_model(checkpoint.model, seed)
        random_init = load_and_verify_model.prepare_model(
            remove_model_head(drawn), texts[0], load_and_verify_model.Requirement.ANATOMY
        )
        subjects[RANDOM_SUFFIX] = build_model_for_variant_runs(
            random_init, variants, cheap, arithmetic, why_plain
        )
    study = partial(
        measure_model_collapse,
        checkpoint,
        subjects,
        first,
        texts,
        variants,
        sub_blocks=sub_blocks,
        over=over,
    )

    return add_collapse_bound_to_study(study, checkpoint, texts) if theorem else study


def add_collapse_bound_to_study(
    study: "MetricStudy", checkpoint: "LoadedModel", texts: "Sequence[ModelInput]"
) -> "MetricStudy":
    """The same study, with the theorem layer by layer in its report."""
    from attncli.commands.rank_collapse.trained_model_collapse_bound import (
        add_collapse_theorem_rows,
    )

    def run_study_with_collapse_theorem(
        *, metrics: Sequence[str], progress: "Progress"
    ) -> "Report":
        report = study(metrics=metrics, progress=progress)
        return add_collapse_theorem_rows(report, checkpoint, texts, progress)

    return run_study_with_collapse_theorem


def explain_why_no_variant_is_exact(
    loaded: "PreTrainedModel", model: ModelOptions, arithmetic: str
) -> str | None:
    """Why no variant can be exact, whatever its functions; None if nothing prevents it."""
    if arithmetic == EXACTLY:
        from attncli.models.loading.device_placement import require_model_on_one_device

        require_model_on_one_device(loaded, "`exact`")
        return None
    if arithmetic == PLAIN:
        return ""
    if model.dtype not in (None, PLAIN):
        return f"{model.dtype} was asked for"
    if model.tensor_parallel or model.device_map is not None or loaded.device.type != "cpu":
        return "exact arithmetic needs the whole model on the CPU"
    return None


def count_input_elements(inputs: "Inputs") -> int:
    return sum(value.numel() for value in inputs.values() if hasattr(value, "numel"))


def build_model_for_variant_runs(
    prepared: "PreparedModel",
    variants: Mapping[str, AblationSwitches],
    cheap: bool,
    arithmetic: str,
    why_plain: str | None,
) -> "CollapseModel":
    """The subject as its variants are to be run; `cheap`: its short input is."""
    from attncli.analysis.rank_collapse.model_variant_runs import CollapseModel
    from attncli.commands.rank_collapse.check_exact_against_float_arithmetic import (
        find_variants_without_exact_arithmetic,
    )
    from attncli.models.precision import run_in_model_precision

    assert prepared.anatomy is not None
    short, proof = prepared.short, prepared.proof
    subject = CollapseModel(prepared.body, prepared.anatomy.anatomy, False, proof.eager_alone)
    if why_plain is not None:
        return replace(subject, exact=True, why_plain=dict.fromkeys(variants, why_plain))
    if arithmetic != AUTO:
        return replace(subject, exact=True)
    with run_in_model_precision(subject.body), short.cut.truncate_residual_streams():
        return replace(
            subject,
            exact=True,
            why_plain=find_variants_without_exact_arithmetic(
                subject,
                short.kwargs,
                variants,
                cheap or bool(short.cut.blocks),
                prepared.anatomy.plain,
            ),
        )


def refuse_texts_of_one_token(texts: "Sequence[ModelInput]") -> None:
    """Refuse single tokens, whose states have rank 1 from the start."""
    for text in texts:
        if text.tokens < 2:
            raise InputError(f"{text.name} has one token: a distance between tokens needs two.")


def require_memory_for_longest_text(
    prepared: "PreparedModel", texts: "Sequence[ModelInput]", keeps_states: bool
) -> None:
    """Before the first long forward pass: whether the longest text fits."""
    from attncli.models.loading.memory_estimate import find_max_head_count, require_memory_to_run

    body = prepared.body
    heads = find_max_head_count(body) if prepared.proof.whole_maps else 0
    longest = max(text.tokens for text in texts)
    states = sum(len(stack.calls) + 1 for stack in prepared.stacks)
    require_memory_to_run(
        body, longest, strip_memory=0, heads_at_once=heads, states_in_memory=states * keeps_states
    )
