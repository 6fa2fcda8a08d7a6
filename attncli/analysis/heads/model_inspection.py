"""Study of `attn inspect-model MODEL`: every head and layer, each number with its controls."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from attncli.analysis.distributed_text_loop import apply_to_each_text
from attncli.analysis.heads.classification.head_and_outlier_findings import build_findings
from attncli.analysis.heads.classification.head_roles import (
    ClassifiedHead,
    build_role_rows,
    classify_heads,
    describe_roles,
)
from attncli.analysis.heads.classification.linear_attention_findings import (
    LinearAttentionReport,
    report_linear_attention,
)
from attncli.analysis.heads.classification.role_rules import MIXED, ROLE
from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    Look,
    PassRequest,
    PassResult,
    Tick,
    describe_attention_implementations,
    ignore_progress_share,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.head_observer import (
    observe_forward_pass as observe_heads,
)
from attncli.analysis.heads.forward_passes.metric_values_in_one_array import (
    PackedValues,
    flatten_pass_metrics,
)
from attncli.analysis.heads.forward_passes.strongest_token_pairs import HeadPairs
from attncli.analysis.heads.forward_passes.text_batches import (
    BatchObserver,
    TextBatches,
    join_inputs_into_batch,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.head_selection import (
    HeadRanking,
    HeadSelection,
    sort_rows_by_head_ranking,
)
from attncli.analysis.heads.metric_selection import MetricSelection, choose_metrics
from attncli.analysis.heads.report_rows.extreme_heads import (
    describe_extreme_heads,
    describe_first_and_last_states,
)
from attncli.analysis.heads.report_rows.head_rows import (
    ON_RANDOM,
    ON_REPEATS,
    HeadObservations,
    Keeps,
    build_head_rows,
    build_state_rows,
    row_keys_of_attention_sites,
    warn_about_heads_with_zero_maps,
    warn_unconverged_spectra,
)
from attncli.analysis.heads.report_rows.layer_counts_by_mixer import LayerCounts
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.analysis.heads.report_rows.token_pairs import (
    describe_strongest_token_pair,
    token_pair_rows,
)
from attncli.analysis.heads.report_tables import build_inspection_views
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import STRIP_MEMORY, AttentionSite
from attncli.capture.model_errors import translate_model_errors
from attncli.capture.softmax_attention.attention_site_names import LINEAR
from attncli.errors import AttnError, format_count
from attncli.metrics.activations._activation_state import ActivationPeak
from attncli.models.inputs.model_input import ModelInput, describe_inputs_besides_token_ids
from attncli.models.inputs.synthetic_texts import (
    DRAWS,
    make_repeated_tokens,
    make_synthetic_texts,
    shuffle_tokens,
)
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.precision import run_in_model_precision
from attncli.processes.divide_work_over_ranks import list_item_indices_of_rank
from attncli.progress import Progress, ignore_progress
from attncli.records import RANDOM, SHUFFLED, Facts, Finding, JsonObject, Report, Row, Scalar

if TYPE_CHECKING:
    from attncli.analysis.heads.forward_passes.hyper_connection_gain import StreamGains
    from attncli.analysis.heads.map_export.map_metadata import MapMetadata

OWN = "own"
"""The loop over the texts as they are."""

PERCENT = 100
"""Steps of the progress bar, whatever the number of attention layers, so that it moves on long
texts."""


RESULT_TYPES = (PassResult, PackedValues, AttentionSite, ActivationPeak, HeadPairs)
"""What the saved results of texts consist of."""


def select_every_head(layer: int, head: int) -> bool:
    return True


@dataclass(frozen=True)
class HeadPlan:
    """What to measure."""

    metrics: MetricSelection
    layers: frozenset[int] | None = None
    selects: Keeps = select_every_head
    ranking: HeadRanking | None = None
    shuffle: bool = False
    seed: int = 0
    strip_memory: int = STRIP_MEMORY


@dataclass
class ProgressMeter:
    """Progress over all passes, from shares of single attention layers."""

    report: Progress
    total: int
    done: float = 0.0

    def add_finished_share(self, share: float) -> None:
        self.done = min(self.total, self.done + share)  # a batch that fails is measured once more
        self.report(int(self.done / self.total * PERCENT), PERCENT, "% of all attention")


@dataclass
class ModelAndControls:
    """The model itself, and its nulls by their keys."""

    own: HeadObservations
    nulls: dict[str, HeadObservations] = field(default_factory=dict)


TakesMetadata = Callable[["MapMetadata", Mapping[AttentionSite, Mapping[str, Scalar]]], None]
"""Receives the metadata that maps lack, and each attention layer's row keys."""


class Inspection(Protocol):
    """`inspect_model` of a model and its texts; `on_strip` and `metadata` as there."""

    def __call__(
        self,
        *,
        progress: Progress,
        on_strip: Look | None = None,
        take_metadata: TakesMetadata | None = None,
    ) -> Report: ...


def inspect_model(
    checkpoint: LoadedModel,
    subject: PreparedModel,
    control: PreparedModel | None,
    texts: Sequence[ModelInput],
    plan: HeadPlan,
    on_strip: Look | None = None,
    progress: Progress = ignore_progress,
    take_metadata: TakesMetadata | None = None,
) -> Report:
    """Inspect the model. `control`: the random-init model; `on_strip` receives the strips of the first
    text, `take_metadata` the metadata that these maps lack, and each attention layer's row keys."""
    runs = observe_model_with_controls(
        subject, control, checkpoint.identity, texts, plan, on_strip, progress
    )
    keys = row_keys_of_attention_sites(runs.own.attention_sites, subject.stacks)
    rows, heads, linear = build_head_and_state_rows(runs, subject, plan, keys, texts)
    roles = plan.metrics.roles
    streams = measure_stream_gains(subject, texts) if roles else None
    rows += streams.build_gain_rows(len(texts)) if streams else ()
    layers = LayerCounts.from_layer_stacks(subject.stacks, subject.shapes, subject.mixers)
    if take_metadata is not None:
        take_metadata(collect_map_metadata(rows, layers, subject, plan, keys, len(texts)), keys)
    softmax = [head for head in heads if head.keys.get("span") != LINEAR]
    findings = list_model_findings(rows, softmax, linear, layers, texts, runs.own) if roles else ()
    findings += (streams.build_stream_gain_finding(),) if streams else ()
    return Report(
        study="inspect-model",
        headline=format_headline(
            checkpoint.identity,
            runs.own,
            softmax,
            [f.about for f in findings],
            select_softmax_heads(subject, plan),
            layers,
            [*subject.idle_towers, linear.headline, describe_pair_or_ranges(rows, heads, plan)],
        ),
        rows=tuple(sort_rows_by_head_ranking(rows, plan.ranking)),
        metrics=plan.metrics.metric_definitions()
        | dict(linear.metrics)
        | (streams.gain_metric_definitions if streams else {}),
        source={
            **checkpoint.identity,
            "attention": describe_attention_layers(runs.own),
            "layers": layers.describe(),
            **linear.source,
        },
        input=describe_texts_and_metrics(texts, runs.own, plan.metrics),
        environment=describe_attention_implementations(runs.own.texts),
        seeds=(plan.seed,),
        views=tuple(build_inspection_views(rows, plan.metrics, plan.ranking, len(texts))),
        findings=findings,
        warnings=(
            *checkpoint.warnings,
            *(each.describe_why_no_map() for each in subject.left_out),
            *describe_inputs_besides_token_ids(texts),
            *collect_inspection_warnings(runs, plan),
            *linear.warnings,
        ),
    )


def observe_model_with_controls(
    subject: PreparedModel,
    control: PreparedModel | None,
    identity: Facts,
    texts: Sequence[ModelInput],
    plan: HeadPlan,
    on_strip: Look | None,
    progress: Progress,
) -> ModelAndControls:
    """Run every forward pass that is needed, of the model and its controls."""
    mixed = [moved for text in texts if plan.shuffle and (moved := shuffle_tokens(text, plan.seed))]
    passes = len(list_item_indices_of_rank(texts)) * (2 if control else 1) + len(
        list_item_indices_of_rank(mixed)
    )
    attentions = len(subject.shapes) + len(
        subject.linear.select_measured_heads(plan.layers, plan.selects).layers
    )
    meter = ProgressMeter(progress, passes * attentions)
    null = UniformAttentionControl()
    runs = ModelAndControls(
        observe_model(
            subject, identity, OWN, texts, plan, null=null, meter=meter, on_strip=on_strip
        )
    )
    if control is not None:
        runs.nulls[RANDOM] = observe_model(control, identity, RANDOM, texts, plan, null, meter)
    if mixed:
        runs.nulls[SHUFFLED] = observe_model(
            subject, identity, SHUFFLED, mixed, plan, null, meter, like=runs.own
        )
    return runs


def observe_model(
    subject: PreparedModel,
    identity: Facts,
    what: str,
    texts: Sequence[ModelInput],
    plan: HeadPlan,
    null: UniformAttentionControl,
    meter: ProgressMeter,
    on_strip: Look | None = None,
    like: HeadObservations | None = None,
) -> HeadObservations:
    """Measure random tokens for the metrics that need them, the texts for all others; only texts if
    it reads no tokens.

    `like`: measure only what that one has measured on its texts. Random tokens have no order.
    """
    linear, metrics = subject.linear.select_measured_heads(plan.layers, plan.selects), plan.metrics
    found = HeadObservations(numbers=linear.heads)
    if like is None:
        found.repeated_token_passes = observe_repeated_tokens(subject, plan, null)
        found.generated_text_passes = observe_generated_texts(subject, plan, null)
    elsewhere = (like or found).metrics_on_generated_tokens(
        metrics.repeated_token_metrics, metrics.generated_text_metrics()
    )
    on_text = tuple(name for name in metrics.heads if name not in elsewhere)
    pairs = metrics.pairs if what == OWN else 0
    request = PassRequest(on_text, metrics.states, plan.layers, pairs=pairs)

    run = partial(
        observe_heads,
        body=subject.body,
        stacks=subject.stacks,
        strip_memory=plan.strip_memory,
        proved=subject.shapes,
        linear=linear,
        apart=subject.uncapturable_module_paths,
    )

    def measure_single_text(text: ModelInput, tick: Tick, look: Look | None = None) -> PassResult:
        return run(HeadObserver(request, null, text.name, tick), kwargs=text.kwargs, on_strip=look)

    def measure_batch(batch: Sequence[ModelInput]) -> list[PassResult]:
        observer = BatchObserver(request, null, batch[0].name, len(batch), meter.add_finished_share)
        run(observer, kwargs=join_inputs_into_batch(batch))
        return observer.results_by_text()

    judge = partial(measure_single_text, tick=ignore_progress_share)
    batches = TextBatches(subject, request, texts, measure_batch, judge) if texts[1:] else None

    def measure_text(place: int, text: ModelInput) -> PassResult:
        look = on_strip if place == 0 else None
        found = None if look or batches is None else batches.take_batched_result(place)
        return flatten_pass_metrics(
            found or measure_single_text(text, meter.add_finished_share, look)
        )

    made_of = RESULT_TYPES if on_strip is None else None  # what is shown is not kept
    found.texts += apply_to_each_text(subject.body, texts, measure_text, identity, what, made_of)
    found.batches_differ = batches is not None and batches.differs
    return found


def observe_repeated_tokens(
    subject: PreparedModel, plan: HeadPlan, null: UniformAttentionControl
) -> list[PassResult]:
    """Measure the roles' input, draw by draw, where the model reads tokens."""
    names = plan.metrics.repeated_token_metrics
    repeated = (
        make_repeated_tokens(subject.body, plan.seed) if names and subject.reads_text_only else None
    )
    if repeated is None:
        return []
    request = PassRequest(names, layers=plan.layers, period=repeated.period)
    where, linear = ON_RANDOM, subject.linear.select_measured_heads(plan.layers, plan.selects)
    run = partial(observe_heads, body=subject.body, stacks=subject.stacks, proved=subject.shapes)

    def measure_single_random_draw(draw: int) -> PassResult:
        observer = HeadObserver(request, null, where, ignore_progress_share)
        return run(
            observer,
            kwargs=repeated.select_text_as_batch(draw),
            linear=linear,
            apart=subject.uncapturable_module_paths,
        )

    together = BatchObserver(request, null, where, DRAWS, ignore_progress_share)
    # what does not run, or is not understood, in a batch: each alone says why
    with suppress(AttnError):
        run(together, kwargs=repeated.kwargs, apart=subject.uncapturable_module_paths)
    draws = together.results_by_text()
    if draws and not linear.layers:
        return draws
    each = [
        measure_single_random_draw(draw) for draw in range(DRAWS)
    ]  # functions of linear layers are taken apart here
    for seen, own in zip(each, draws, strict=False):
        seen.heads.update(own.heads)
    return each


def observe_generated_texts(
    subject: PreparedModel, plan: HeadPlan, null: UniformAttentionControl
) -> dict[str, list[PassResult]]:
    """Measure generated texts for copying, where the model reads tokens."""
    found: dict[str, list[PassResult]] = {}
    if not subject.reads_text_only:
        return found
    for kind, names in plan.metrics.generated_text_metrics().items():
        for made in make_synthetic_texts(subject.body, kind, plan.seed):
            seen = measure_forward_pass(
                subject.body,
                subject.stacks,
                made.kwargs,
                PassRequest(names, layers=plan.layers, ids=made.ids),
                null,
                f"a text of {kind}",
                ignore_progress_share,
                strip_memory=plan.strip_memory,
                proved=subject.shapes,
                linear=subject.linear.select_measured_heads(plan.layers, plan.selects),
                apart=subject.uncapturable_module_paths,
            )
            found.setdefault(kind, []).append(seen)
    return found


def collect_map_metadata(
    rows: Sequence[Row],
    layers: LayerCounts,
    subject: PreparedModel,
    plan: HeadPlan,
    keys: Mapping[AttentionSite, dict[str, Scalar]],
    texts: int,
) -> "MapMetadata":
    """Collect the metrics behind roles, requested or not; for a single text also all others that
    maps lack.

    Over several texts those would be means, and the maps are those of the first.
    """
    from attncli.analysis.heads.map_export.map_metadata import (
        MapMetadata,
        is_metric_unavailable_from_maps,
    )

    repeats_plan = replace(plan, metrics=choose_metrics([ON_REPEATS]))
    repeated = observe_repeated_tokens(subject, repeats_plan, UniformAttentionControl())
    own = HeadObservations(repeated, repeated)
    roles = [
        row
        for row in build_head_rows(
            repeats_plan.metrics.repeated_token_metrics if repeated else (),
            own,
            {},
            keys,
            plan.selects,
        )
        if row.keys.get("span") != LINEAR  # whose maps no file has
    ]
    rows = [row for row in rows if row.keys.get("span") != LINEAR]
    others = [
        row
        for row in rows
        if texts == 1 and row.metric != ROLE and is_metric_unavailable_from_maps(row.metric)
    ]
    whole = select_softmax_heads(subject, plan)
    return MapMetadata(
        layers,
        describe_input_for_roles(own),
        rows=(*roles, *others),
        of_layers=whole.of_layers,
        of_heads=whole.of_heads,
    )


def describe_input_for_roles(observed: HeadObservations) -> str:
    return ON_RANDOM if observed.repeated_token_passes else "texts"


def build_head_and_state_rows(
    runs: ModelAndControls,
    subject: PreparedModel,
    plan: HeadPlan,
    keys: Mapping[AttentionSite, dict[str, Scalar]],
    texts: Sequence[ModelInput],
) -> tuple[list[Row], list[ClassifiedHead], LinearAttentionReport]:
    """All rows, the heads as they are gathered from them, and what the report says of linear layers."""
    metrics = plan.metrics
    rows = list(build_head_rows(metrics.heads, runs.own, runs.nulls, keys, plan.selects))
    drawn = metrics.repeated_token_metrics if runs.own.repeated_token_passes else ()
    heads = classify_heads(rows, drawn) if metrics.roles else []
    rows = [*build_role_rows(heads), *rows]
    if metrics.pairs:
        names = [TokenNames(text.labels, text.decoder_labels) for text in texts]
        rows += token_pair_rows(runs.own, names, keys, plan.selects, metrics.pairs)
    linear = LinearAttentionReport()
    if subject.linear.layers or subject.linear.refusals:
        chosen = subject.linear.select_measured_heads(plan.layers, plan.selects)
        linear = report_linear_attention(subject.linear, chosen, runs.own, heads, keys)
    units = {name: metrics.metric_definitions()[name].unit for name in metrics.states}
    return [*rows, *linear.rows, *build_state_rows(units, runs.own, runs.nulls)], heads, linear


def list_model_findings(
    rows: Sequence[Row],
    softmax: Sequence[ClassifiedHead],
    linear: LinearAttentionReport,
    layers: LayerCounts,
    texts: Sequence[ModelInput],
    observed: HeadObservations,
) -> tuple[Finding, ...]:
    """Of softmax heads and states; then of linear heads, by their kind."""
    own = [row for row in rows if row.keys.get("span") != LINEAR]
    shortest = min(seen.tokens for seen in observed.texts)
    labels, unseen = (
        [text.labels for text in texts],
        layers.describe_unmeasured_mixers(linear.kinds),
    )
    return (*build_findings(own, softmax, labels, unseen, shortest), *linear.findings)


def measure_stream_gains(
    subject: PreparedModel, texts: Sequence[ModelInput]
) -> "StreamGains | None":
    """Gains of hyper-connections, by one more pass over each text; None where a token has one
    stream."""
    if all(each.reaches is not False for each in subject.left_out):
        return None
    from attncli.analysis.heads.forward_passes.hyper_connection_gain import compute_stream_gains
    from attncli.capture.other_mixers.hyper_connections import find_residual_stream_mixings

    inputs = {text.name: text.kwargs for text in texts}
    with translate_model_errors(subject.body, inputs), run_in_model_precision(subject.body):
        found = [
            find_residual_stream_mixings(subject.body, subject.left_out, text.kwargs)
            for text in texts
        ]
    return compute_stream_gains(found, subject.stacks)


def select_softmax_heads(subject: PreparedModel, plan: HeadPlan) -> HeadSelection:
    heads = {site: range(shape.heads) for site, shape in subject.shapes.items()}
    return HeadSelection.count_selected_heads(heads, plan.layers, plan.selects)


def describe_pair_or_ranges(
    rows: Sequence[Row], heads: Sequence[ClassifiedHead], plan: HeadPlan
) -> str:
    """The clearest pair if pairs were requested; else, where roles say nothing, the ranges of what was measured."""
    if plan.metrics.pairs and (clearest := describe_strongest_token_pair(rows)):
        return clearest
    if any(head.role is not None and head.role.role is not MIXED for head in heads):
        return ""
    ranges = describe_extreme_heads(
        [row for row in rows if not heads or row.metric in WITHOUT_ROLES]
    )
    return ranges or ("" if heads else describe_first_and_last_states(rows))


WITHOUT_ROLES = ("entropy_normalised", "distance")
"""What the headline says of heads without a clear role: how uniform they are, and how far they look."""


def format_headline(
    identity: Facts,
    observed: HeadObservations,
    heads: Sequence[ClassifiedHead],
    about: Sequence[str],
    chosen: HeadSelection,
    layers: LayerCounts | None,
    remarks: Sequence[str],
) -> str:
    """Headline: the model, its roles, its most serious finding, and further remarks, such as the clearest pair."""
    name = identity.get("name") or identity.get("path") or identity.get("class")
    hybrid = layers.format_layer_counts() if layers is not None and chosen.covers_all_heads else ""
    length = format_text_lengths([seen.tokens for seen in observed.texts])
    size = f"{hybrid}; {length}" if hybrid else f"{chosen.format_selected_layer_count()}, {length}"
    played = describe_roles(heads, chosen.heads)
    sick = [word for word in about if word in SICK]
    return (
        f"{name}: {size}"
        + chosen.format_selected_heads_and_roles(played)
        + (f"; {', '.join(sick)}" if sick else "")
        + "".join(f"; {remark}" for remark in remarks if remark)
        + "."
    )


def format_text_lengths(tokens: Sequence[int]) -> str:
    """`237 tokens`, `40 texts of 50-218 tokens`."""
    low, high = min(tokens), max(tokens)
    length = format_count(high, "token") if low == high else f"{low:,}-{high:,} tokens"
    return length if len(tokens) == 1 else f"{format_count(len(tokens), 'text')} of {length}"


SICK = ("massive activations", "over-smoothing", "idle heads")
"""Findings that belong into the headline."""


def describe_attention_layers(observed: HeadObservations) -> list[JsonObject]:
    """Which layers attend, how, and with how many heads."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for site in observed.attention_sites:
        if site.is_linear_attention:
            continue
        found.setdefault((site.stack, site.kind, site.span), []).append(site.layer)
    return [
        {"stack": stack, "kind": kind, "span": span, "layers": layers}
        for (stack, kind, span), layers in found.items()
    ]


def describe_texts_and_metrics(
    texts: Sequence[ModelInput], observed: HeadObservations, metrics: MetricSelection
) -> JsonObject:
    """The texts, and which metrics were measured on others, that attn has drawn."""
    made = (
        {"copying_on": {kind: len(seen) for kind, seen in observed.generated_text_passes.items()}}
        if observed.generated_text_passes
        else {}
    )
    draws = (
        {"role_draws": len(observed.repeated_token_passes)}
        if observed.repeated_token_passes
        else {}
    )
    elsewhere = sorted(
        observed.metrics_on_generated_tokens(
            metrics.repeated_token_metrics, metrics.generated_text_metrics()
        )
    )
    return {
        "texts": [text.describe_model_input() for text in texts],
        "roles_on": describe_input_for_roles(observed),
        **draws,
        **made,
        **({"not_on_texts": elsewhere} if elsewhere else {}),
    }


def collect_inspection_warnings(runs: ModelAndControls, plan: HeadPlan) -> Iterator[str]:
    if plan.shuffle and SHUFFLED not in runs.nulls:
        yield "the model reads no tokens, so there is no shuffled text to compare with."
    if runs.own.batches_differ:
        yield "in a batch the model gives a text other numbers than alone: each text was run by itself."
    yield from warn_unconverged_spectra(runs.own.texts)
    yield from warn_about_heads_with_zero_maps(runs.own.texts)
