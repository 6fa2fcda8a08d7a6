"""One preparation of a model for every question: its blocks and attention are found, and what is captured is verified.

    checkpoint = load_model_in_dtype(source, options, FLOAT64_IF_IT_FITS)
    texts = make_inputs(checkpoint, wanted)
    subject = prepare_model(checkpoint.model_without_head, texts[0], needs=CAPTURE | BLOCKS)
    require_memory_to_run(subject.body, texts[0].tokens, …)

Questions differ in the dtype in which they load, in the input on which a model is verified, in what they need of it, and in
what they make of softmaxes that cannot be captured and of a model without attention: each is a choice of one step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Flag
from typing import TYPE_CHECKING, Literal

import torch

from attncli.analysis.verification_inputs import (
    TEXTS,
    ShortInput,
    choose_short_input,
    list_main_input_names,
)
from attncli.capture import AttentionSite, MapShape, VerifiedCapture, verify_capture
from attncli.capture.linear_attention.linear_attention_heads import LinearAttentionLayers
from attncli.capture.model_errors import run_model_or_refuse_input, translate_model_errors
from attncli.capture.model_structure.blocks import (
    BlockStack,
    build_attention_free_block_stacks,
    build_model_structure,
)
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.model_structure.probe_forward import (
    ProbeResult,
    iter_paths_of_unused_blocks,
    probe_forward,
)
from attncli.capture.other_mixers.token_mixers import TokenMixer, find_token_mixers
from attncli.capture.other_mixers.uncapturable_attention import (
    UncapturableAttention,
    find_mixers_with_uncapturable_attention,
    refuse_uncapturable_attention,
)
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.capture.verify_captured_attention import NOTHING_ATTENDS
from attncli.errors import AttnError, LimitError, NoAttention
from attncli.forward_argument_types import Inputs
from attncli.model_and_file_sources import Source
from attncli.models.inputs.model_input import ModelInput
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loaded_model import Ahead, LoadedModel
from attncli.models.precision import run_in_model_precision

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.analysis.rank_collapse.blocks_for_ablation import BlockExamination

AS_STORED, NOT_HALF, FLOAT64_IF_IT_FITS = "as stored", "not half", "float64 if it fits"
"""In which dtype a model is loaded where the user chose none."""


class Requirement(Flag):
    """What a question needs of a model."""

    BLOCKS = 1
    """Its blocks, where its states are."""
    CAPTURE = 2
    """Its attention, verified."""
    MIXERS = 4
    """What else mixes tokens in its blocks."""
    LINEAR = MIXERS | 8
    """Which of that has maps, being linear in its values."""
    ANATOMY = BLOCKS | CAPTURE | 16
    """The parts of its blocks that can be switched off, and what keeps its attention from collapsing."""


NONE_LINEAR, NO_INPUT = LinearAttentionLayers(), ShortInput({}, 0)
HEADS = Requirement.BLOCKS | Requirement.CAPTURE


@dataclass(frozen=True)
class PreparedModel:
    """A model whose attention capture has been verified."""

    body: "PreTrainedModel"
    stacks: tuple[BlockStack, ...]
    shapes: Mapping[AttentionSite, MapShape]
    """Of each attention's maps on the short input that proved it, in the order in which they run."""
    mixers: tuple[TokenMixer, ...] = ()
    """Token mixers other than attention."""
    linear: LinearAttentionLayers = NONE_LINEAR
    """Which of these have maps."""
    left_out: tuple[UncapturableAttention, ...] = ()
    """Softmax layers whose maps cannot be captured."""
    short: ShortInput = NO_INPUT
    """The short input."""
    idle: tuple[str, ...] = ()
    """Paths of towers that did not run on it."""
    proof: VerifiedCapture = NOTHING_ATTENDS
    replaces_modules: bool = False
    """Whether its first pass replaces modules for short texts (BigBird), which must happen before capture."""
    anatomy: "BlockExamination | None" = None
    """The anatomy of its blocks."""

    @property
    def uncapturable_module_paths(self) -> frozenset[str]:
        """Paths of softmax layers whose maps cannot be captured, with stars for numbers."""
        return frozenset(each.family for each in self.left_out)

    @property
    def idle_towers(self) -> tuple[str, ...]:
        """One sentence, or none: which towers did not run."""
        return (f"{', '.join(self.idle)} did not run",) if self.idle else ()

    @property
    def bytes_per_weight(self) -> int:
        """Bytes of a captured weight: half precision is captured as float32."""
        return 8 if self.body.dtype == torch.float64 else 4

    @property
    def reads_text_only(self) -> bool:
        """Whether it was verified on a text without pictures, sounds or states of another model."""
        return list_main_input_names(self.short.kwargs) <= {
            name for names in TEXTS for name in names
        }

    def attention_shapes_at_length(self, tokens: int) -> dict[AttentionSite, MapShape]:
        """The same attentions on a text of so many tokens; pictures and sounds have as many patches as they had."""

        def side(length: int) -> int:
            return tokens if length == self.short.tokens else length

        return {
            site: MapShape(shape.heads, side(shape.queries), side(shape.keys))
            for site, shape in self.shapes.items()
        }


def load_model_in_dtype(
    source: Source, options: LoadOptions, dtype: str = AS_STORED, ahead: Ahead | None = None
) -> LoadedModel:
    """Load a model in the dtype that a question asks for, unless the user has chosen one."""
    if dtype == NOT_HALF:
        return load_model(source, replace(options, half=False), ahead)
    if dtype == AS_STORED or options.dtype is not None or options.device == "mps":
        return load_model(source, options, ahead)
    try:
        return load_model(source, replace(options, dtype="float64"), ahead)
    except LimitError as error:
        checkpoint = load_model(source, options, ahead)
        warning = f"run in {checkpoint.identity['dtype']}, for {error}"
        return replace(checkpoint, warnings=(*checkpoint.warnings, warning))


def prepare_model(
    body: "PreTrainedModel",
    text: ModelInput | None = None,
    needs: Requirement = HEADS,
    *,
    left_out: Literal["note", "refuse"] = "note",
    without_attention: Literal["refuse", "linear"] = "refuse",
    without_blocks: Literal["refuse", "go on"] = "refuse",
) -> PreparedModel:
    """Find the model's blocks and attention on a short input like the text, and verify the capture there.

    `left_out`: whether softmaxes that cannot be captured are noted, or refused; `without_attention`: whether such a model is
    refused, or its linear layers are taken; `without_blocks`: whether one without blocks is refused.
    """
    with run_in_model_precision(body):
        short = choose_short_input(body, text, cheapest=Requirement.ANATOMY in needs)
    inputs = short.kwargs
    with (
        translate_model_errors(body, {"a short input": inputs}),
        run_in_model_precision(body),
        short.cut.truncate_residual_streams(),
    ):
        unseen = Requirement.BLOCKS not in needs and not isinstance(body, ForeignModule)
        seen, replaces_modules = (
            (ProbeResult(), False) if unseen else record_first_forward(body, inputs)
        )
        if Requirement.ANATOMY in needs:
            return prepare_model_for_ablation(body, short, seen)
        try:
            proof = (
                verify_capture(body, inputs) if Requirement.CAPTURE in needs else NOTHING_ATTENDS
            )
        except NoAttention as reason:
            if without_attention == "linear":
                return prepare_linear_layers(body, short, seen, reason)
            raise
        if left_out == "refuse":
            refuse_uncapturable_attention(proof.left_out)
        stacks = (
            build_model_structure(body, seen, without_blocks == "go on").stacks
            if Requirement.BLOCKS in needs
            else ()
        )
        mixers, linear = find_mixers_besides_attention(body, stacks, inputs, proof, needs)
        idle = () if unseen else tuple(iter_paths_of_unused_blocks(body, set(seen.ran)))
        return PreparedModel(
            body,
            stacks,
            proof.shapes,
            mixers,
            linear,
            proof.left_out,
            short=short,
            idle=idle,
            proof=proof,
            replaces_modules=replaces_modules,
        )


def record_first_forward(body: "PreTrainedModel", inputs: Inputs) -> tuple[ProbeResult, bool]:
    """The model's first forward, recorded, and whether it replaced modules; then it is the second that shows them."""
    before = list(map(id, body.modules()))
    try:
        with fix_random_seed():
            seen = probe_forward(body, inputs)
    except AttnError:
        raise
    except Exception:
        with torch.no_grad():
            # this run raises the error if the model's own code fails
            run_model_or_refuse_input(body, inputs)
        raise
    replaces_modules = list(map(id, body.modules())) != before
    if replaces_modules:
        seen = probe_forward(body, inputs)
    if isinstance(body, ForeignModule):
        body.record_attending_submodules(seen)
    return seen, replaces_modules


def find_mixers_besides_attention(
    body: "PreTrainedModel",
    stacks: tuple[BlockStack, ...],
    inputs: Inputs,
    proof: VerifiedCapture,
    needs: Requirement,
) -> tuple[tuple[TokenMixer, ...], LinearAttentionLayers]:
    """What mixes tokens besides the captured attention, and which of that has maps."""
    if Requirement.MIXERS not in needs:
        return (), NONE_LINEAR
    mixers = find_token_mixers(body, stacks, inputs, proof.shapes)
    lengths = sorted({shape.queries for shape in proof.shapes.values()})
    linear = NONE_LINEAR
    if Requirement.LINEAR in needs and mixers:
        from attncli.capture.linear_attention.linear_attention_capture import (
            find_linear_attention_layers,
        )

        linear = find_linear_attention_layers(body, mixers, inputs, *lengths)
    if proof.left_out:
        mixers = (
            *mixers,
            *find_mixers_with_uncapturable_attention(stacks, proof.left_out, mixers, body),
        )
    return mixers, linear


def prepare_linear_layers(
    body: "PreTrainedModel", short: ShortInput, seen: ProbeResult, reason: NoAttention
) -> PreparedModel:
    """Prepare a model of linear layers only; one that has none of these either is refused."""
    from attncli.capture.linear_attention.linear_attention_capture import (
        find_linear_attention_layers,
    )

    stacks = build_attention_free_block_stacks(body, seen)
    mixers = find_token_mixers(body, stacks, short.kwargs, {}, short.tokens)
    linear = find_linear_attention_layers(body, mixers, short.kwargs, short.tokens)
    if linear.layers:
        return PreparedModel(body, stacks, {}, mixers, linear, short=short)
    why = "; ".join(f"{kind}: {reason}" for kind, reason in linear.refusals.items())
    raise NoAttention(
        f"{str(reason).rstrip('.')}, and no linear layer{f' ({why})' if why else ''}."
    )


def prepare_model_for_ablation(
    body: "PreTrainedModel", short: ShortInput, seen: ProbeResult
) -> PreparedModel:
    """Prepare a model whose parts are switched off; one in which no softmax weighs values may mix tokens otherwise."""
    from attncli.analysis.rank_collapse.blocks_for_ablation import (
        recognise_blocks_and_verify_capture,
    )

    proof, examined = recognise_blocks_and_verify_capture(body, short.kwargs, seen)
    idle = tuple(iter_paths_of_unused_blocks(body, set(seen.ran)))
    return PreparedModel(
        body,
        examined.anatomy.stacks,
        proof.shapes,
        left_out=proof.left_out,
        short=short,
        idle=idle,
        proof=proof,
        anatomy=examined,
    )
