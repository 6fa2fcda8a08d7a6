"""From SOURCE and the model options to a study of a loaded model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from attncli.checkpoints.sources import Source
from attncli.cli.defaults import before_the_work
from attncli.cli.model_options import InputOptions, ModelOptions
from attncli.errors import InputError, LimitError
from attncli.networks.variants import Switches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.checkpoints.inputs.texts import ModelInput
    from attncli.checkpoints.loading.load import Checkpoint
    from attncli.checkpoints.streaming import Proof
    from attncli.checkpoints.structure.traits import Traits
    from attncli.records import Report
    from attncli.studies.model_runs import Subject

PROBE_TOKENS = 12
"""Length of the input on which a model's structure is found out and proved."""


def collapse_study(
    source: Source,
    variants: Mapping[str, Switches],
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
    exact: bool,
    with_random_init: bool,
    sub_blocks: bool,
) -> "Callable[..., Report]":
    """Everything is loaded, proved and examined before the first curve is measured."""
    refuse_at_once(source)
    from attncli.checkpoints.inputs.texts import inputs_of
    from attncli.checkpoints.loading.placing import require_one_device
    from attncli.checkpoints.loading.twins import random_twin
    from attncli.studies.model_collapse import RANDOM_SUFFIX, Precision, model_collapse

    for what, asked in (("--exact", exact), ("--with-random-init", with_random_init)):
        if asked:
            model.refuse_tensor_parallel(what)
    wanted = inputs.to_read(tokens, seed)
    model.to_load(seed)
    before_the_work()
    checkpoint = loaded_for_ablation(source, model, seed)
    texts = inputs_of(checkpoint, wanted)
    refuse_single_tokens(texts)
    if exact:
        require_one_device(checkpoint.model, "--exact")
    first = examined(checkpoint.model, exact)
    require_room(first, texts)
    subjects = {"": first.subject}
    if with_random_init:
        subjects[RANDOM_SUFFIX] = examined(random_twin(checkpoint.model, seed), exact).subject
    precision = Precision.of(checkpoint.model.dtype, exact)
    return partial(
        model_collapse,
        checkpoint,
        subjects,
        first.traits,
        texts,
        variants,
        precision=precision,
        sub_blocks=sub_blocks,
    )


def refuse_at_once(source: Source) -> None:
    """What is wrong with a model's folder itself, said before anything heavy is imported."""
    from attncli.checkpoints.files.folders import read_config
    from attncli.checkpoints.files.local_folder import local_folder

    if source.kind == "folder":
        read_config(local_folder(source).folder)


def loaded_for_ablation(source: Source, model: ModelOptions, seed: int) -> "Checkpoint":
    """In float64 unless the user says otherwise or it does not fit: what is left of a collapsed state is small."""
    from attncli.checkpoints.loading.load import load

    options = model.to_load(seed)
    if options.dtype is not None or options.device == "mps":
        return load(source, options)
    try:
        return load(source, replace(options, dtype="float64"))
    except LimitError as error:
        checkpoint = load(source, options)
        warning = f"run in {checkpoint.identity['dtype']}, for {error}"
        return replace(checkpoint, warnings=(*checkpoint.warnings, warning))


def refuse_single_tokens(texts: "Sequence[ModelInput]") -> None:
    """One token is of rank 1 from the start."""
    for text in texts:
        if text.tokens < 2:
            raise InputError(f"{text.name} has one token: a distance between tokens needs two.")


class Examined(NamedTuple):
    """What a short input has shown of a model."""

    subject: "Subject"
    traits: "Mapping[str, Traits]"
    proof: "Proof"


def examined(model: "PreTrainedModel", exact: bool) -> Examined:
    """The model's blocks and attention, proved on a short input."""
    from attncli.checkpoints.ablation import examine
    from attncli.checkpoints.loading.body import body_of
    from attncli.checkpoints.random.dummy_inputs import example_inputs
    from attncli.checkpoints.streaming import prove
    from attncli.checkpoints.structure.traits import traits_of
    from attncli.studies.model_runs import Subject, own_precision

    body = body_of(model)
    short = example_inputs(body, PROBE_TOKENS)
    with own_precision(body):
        proof = prove(body, short)
        anatomy = examine(body, short)
        traits = traits_of(body, anatomy.stacks, short, proof)
    return Examined(Subject(body, anatomy, exact, proof.eager_alone), traits, proof)


def require_room(examined: Examined, texts: "Sequence[ModelInput]") -> None:
    """Before the first long forward pass: whether the longest text fits."""
    from attncli.checkpoints.loading.room_needed import require_room_to_run

    body, proof = examined.subject.body, examined.proof
    heads = vars(body.config).get("num_attention_heads", 1) if proof.whole_maps else 0
    longest = max(text.tokens for text in texts)
    require_room_to_run(body, longest, strip_memory=0, heads_at_once=heads)
