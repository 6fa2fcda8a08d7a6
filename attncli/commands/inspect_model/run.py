"""From MODEL and the options to a study of its heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from attncli.analysis import Progress, Say, Study
from attncli.analysis.heads.forward_passes.head_observer import (
    Look,
    PassRequest,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformControl
from attncli.analysis.heads.map_export.collected_maps import CollectedMaps, announce_map_size
from attncli.analysis.heads.map_export.map_metadata import MapMetadata
from attncli.analysis.heads.map_export.thumbnails import Thumbnails, select_heads, thumbnail_size
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.model_inspection import HeadPlan, inspect_model, select_linear
from attncli.analysis.heads.ordering import select_ranking
from attncli.analysis.heads.prepare import (
    available_heads,
    refuse_absent,
    refuse_layers_beyond,
    refuse_no_config,
)
from attncli.analysis.heads.rows.head_rows import site_keys
from attncli.analysis.heads.rows.token_names import TokenNames
from attncli.analysis.prepare import HEADS, Need, PreparedModel, prepare
from attncli.capture import STRIP_MEMORY, AttentionSite, Strip
from attncli.capture.linear.linear_layers import LinearLayer
from attncli.capture.stacks.foreign_modules import ForeignModule
from attncli.declare.dry_run import before_the_work
from attncli.errors import UsageError
from attncli.io.atomic_files import write_atomically
from attncli.io.tensor_files import write_tensors
from attncli.models.inputs.requested_input import RequestedInput
from attncli.models.inputs.texts import ModelInput, make_check_before_weights, make_inputs
from attncli.models.loading.body import remove_model_head
from attncli.models.loading.load import Ahead, LoadedModel, load_model
from attncli.models.loading.memory_estimate import require_memory_to_run
from attncli.models.loading.random_init import make_random_init_model
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.options.heads import HeadOptions
from attncli.options.model import InputOptions, ModelOptions
from attncli.sources import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.records import Report, Scalar

LONG_TEXT, REHEARSED = 2048, 512
"""From LONG_TEXT tokens on, announce how long linear layers take, estimated on REHEARSED tokens."""
WORTH_SAYING = 60.0
"""Seconds."""

Beyond = Callable[[MapMetadata, Mapping[AttentionSite, Mapping[str, "Scalar"]]], None]


class Inspection(Protocol):
    """An inspection whose maps can be taken along; `beyond` receives what they do not tell themselves."""

    def __call__(
        self, *, progress: Progress, also: Look | None = None, beyond: Beyond | None = None
    ) -> "Report": ...


@dataclass(frozen=True)
class InspectionRequest:
    """Options besides those of the model and its input."""

    source: Source
    metric: Sequence[str]
    with_random_init: bool
    with_shuffled_text: bool
    tokens: int | None
    seed: int
    save_maps: Path | None
    draws_maps: bool
    """Whether the maps of chosen heads are to be drawn."""
    for_page: bool
    """Whether a page is to show maps."""
    strip_memory: int | None
    """MiB."""
    pairs: int = 0
    """How many of each head's strongest pairs of tokens are reported."""

    def plan(self, heads: HeadOptions) -> HeadPlan:
        metrics = choose_metrics(self.metric, self.pairs)
        order = select_ranking(heads, metrics.heads)
        return HeadPlan(
            metrics,
            heads.chosen_layers(),
            heads.head_filter(),
            order,
            self.with_shuffled_text,
            self.seed,
            self.strip_bytes,
        )

    @property
    def strip_bytes(self) -> int:
        if self.strip_memory is None:
            return STRIP_MEMORY
        if self.strip_memory < 1:
            raise UsageError(f"`strip_memory={self.strip_memory!r}`: it must be at least 1 MiB.")
        return self.strip_memory * 2**20


def prepare_inspection(
    request: InspectionRequest,
    heads: HeadOptions,
    model: ModelOptions,
    inputs: InputOptions,
    say: Say,
) -> Study:
    """Choose, load and verify everything before the first text is read."""
    plan = request.plan(heads)
    options, requested = model.to_load(request.seed), inputs.to_read(request.tokens, request.seed)
    before_the_work()
    checkpoint = load_model(request.source, options, before_weights(plan, requested))
    texts = make_inputs(checkpoint, requested)
    subject = prepare_heads(checkpoint.body, texts[0])
    refuse_absent(available_heads(subject), plan)
    if subject.linear.found and not request.metric:
        plan = replace(plan, metrics=plan.metrics.with_linear())
    announce_duration(subject, plan, max(text.tokens for text in texts), say)
    advice = "cut it with `tokens`, or lower `strip_memory`"
    for text in texts:
        require_memory_to_run(subject.body, text.tokens, plan.strip_memory, advice=advice)
    random_init = load_random_init(checkpoint, texts[0], request)
    study: Inspection = partial(inspect_model, checkpoint, subject, random_init, texts, plan)
    if request.for_page:
        study = add_thumbnails(
            study, subject, plan, texts[0], bool(heads.set_names() or request.save_maps)
        )
    if request.save_maps is None and not request.draws_maps:
        return study
    if not subject.shapes:
        raise UsageError(
            "`save_maps` and pictures are of softmax heads, and the model has none: maps of linear layers are not kept."
        )
    collected = CollectedMaps(plan.layers, plan.keeps, for_file=request.save_maps is not None)
    lengths = subject.shapes_on(texts[0].tokens)
    announce_map_size(collected, lengths, request.save_maps, say, subject.itemsize)
    metadata: dict[str, str] = {}
    names = TokenNames.of_text(texts[0])

    def add_metadata(
        found: MapMetadata, keys: Mapping[AttentionSite, Mapping[str, "Scalar"]]
    ) -> None:
        named = {name: keys[site] for site, name in collected.names().items()}
        metadata.update(replace(found, keys=named).metadata)

    def with_maps(progress: Progress) -> "Report":
        metadata_of = add_metadata if request.save_maps is not None else None
        report = study(also=collected.take, progress=progress, beyond=metadata_of)
        if request.save_maps is not None:
            metadata.update(collected.metadata(checkpoint.identity, names))
            write_atomically(
                request.save_maps,
                lambda path: write_tensors(path, collected.named_tensors(), metadata),
            )
        pictures = collected.build_plots(names) if request.draws_maps else ()
        return replace(report, pictures=tuple(pictures))

    return with_maps


def prepare_heads(body: "PreTrainedModel", text: ModelInput | None = None) -> PreparedModel:
    """The model's attention and its linear layers; a module of another origin may have no blocks."""
    return prepare(
        body,
        text,
        HEADS | Need.LINEAR,
        without_attention="linear",
        without_blocks="go on" if isinstance(body, ForeignModule) else "refuse",
    )


def load_random_init(
    checkpoint: LoadedModel, text: ModelInput, request: InspectionRequest
) -> PreparedModel | None:
    """Prepare the same architecture with random weights, if it is requested as a control."""
    if not request.with_random_init:
        return None
    refuse_no_config(checkpoint.body)
    return prepare_heads(
        remove_model_head(make_random_init_model(checkpoint.model, request.seed)), text
    )


def before_weights(plan: HeadPlan, requested: RequestedInput) -> Ahead:
    """Checks from config and tokenizer, before weights are read: missing layers, texts that are too
    long."""
    read_texts = make_check_before_weights(requested)

    def check_and_read_texts(checkpoint: LoadedModel) -> Any:
        refuse_layers_beyond(checkpoint, plan)
        return read_texts(checkpoint)

    return check_and_read_texts


def announce_duration(subject: PreparedModel, plan: HeadPlan, tokens: int, say: Say) -> None:
    """Announce how long maps of linear layers take, from one layer of each kind on a short text;
    skip short runs."""
    linear = select_linear(subject, plan)
    if tokens < LONG_TEXT or not linear.layers:
        return
    kinds: dict[str, list[LinearLayer]] = {}
    for layer in linear.layers:
        kinds.setdefault(layer.function, []).append(layer)
    seconds = 0.0
    for layers in kinds.values():
        one = frozenset({layers[0].site.layer})
        spent = estimate_seconds(
            subject, replace(plan, layers=one, metrics=choose_metrics(["entropy"]))
        )
        power = (
            2 if layers[0].shortcuts.carried is not None else 3
        )  # each row goes back over all tokens
        seconds += len(layers) * spent * (tokens / REHEARSED) ** power
    if seconds >= WORTH_SAYING:
        say(
            f"maps of {len(linear.layers)} linear layers over {tokens} tokens: about {seconds / 60:.2g} minutes; `layers` "
            "chooses fewer"
        )


def estimate_seconds(subject: PreparedModel, plan: HeadPlan) -> float:
    """Seconds for one forward pass on a short text."""
    example_inputs = make_example_inputs(subject.body, REHEARSED)
    requested, linear = (
        PassRequest(plan.metrics.heads, layers=plan.layers),
        select_linear(subject, plan),
    )
    start = perf_counter()
    measure_forward_pass(
        subject.body,
        subject.stacks,
        example_inputs,
        requested,
        UniformControl(),
        "a short text",
        lambda share: None,
        strip_memory=plan.strip_memory,
        linear=linear,
        apart=subject.apart,
    )
    return perf_counter() - start


def add_thumbnails(
    study: Inspection, subject: PreparedModel, plan: HeadPlan, text: ModelInput, requested: bool
) -> Inspection:
    """Return the same study, with thumbnails of its heads in the report where they fit."""
    shapes = subject.shapes_on(text.tokens)
    chosen = select_heads(plan.layers, plan.keeps, shapes)
    side = thumbnail_size(shapes, chosen, requested, plan.ranking.top if plan.ranking else None)
    if side is None:
        return study
    small, names = Thumbnails(side, chosen), TokenNames.of_text(text)

    def with_small_maps(
        *, progress: Progress, also: Look | None = None, beyond: Beyond | None = None
    ) -> "Report":
        def observe_strip(site: AttentionSite, strip: Strip) -> None:
            small.take(site, strip)
            if also is not None:
                also(site, strip)

        report = study(progress=progress, also=observe_strip, beyond=beyond)
        keys = site_keys(small.sites, subject.stacks)
        return replace(report, tiles=tuple(small.tiles(names, keys, {}, report.rows)))

    return with_small_maps
