"""The patterns of a run: built in, from files, and heads of models with the maps that they have on a text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError, it_or_them, said_of
from attncli.options.model import CheckpointOptions, InputOptions
from attncli.options.patterns import DEFAULT_LENGTH, PatternOptions

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from attncli.patterns._heads import ModelHead
    from attncli.records import Report


@dataclass(frozen=True)
class ChosenPatterns:
    """What is to be expressed, the forward passes for it done."""

    options: PatternOptions
    maps: "Mapping[str, csr_array]" = field(default_factory=dict)
    """Of the patterns that are heads of models, by their words."""
    models: Mapping[str, Any] = field(default_factory=dict)
    """Those models' identities and inputs, for the report."""
    warnings: tuple[str, ...] = ()

    def targets(self, seed: int, causal: bool) -> "dict[str, csr_array]":
        """Every pattern, from its own stream of the seed."""
        import numpy as np

        from attncli.patterns import build
        from attncli.patterns._checks import check_rows
        from attncli.patterns._matrices import GivenMatrix
        from attncli.patterns._pattern_files import is_file
        from attncli.patterns._sparse import row_normalised

        targets: dict[str, csr_array] = {}
        for index, text in enumerate(self.options.chosen):
            if isinstance(text, GivenMatrix):
                targets[text] = row_normalised(text.checked(self.options.length, causal))
                continue
            if text in self.maps:
                check_rows(text, self.maps[text], causal)
                targets[text] = row_normalised(self.maps[text])
                continue
            length = self.options.length
            if length is None and not is_file(text):
                length = DEFAULT_LENGTH
            targets[text] = build(text, length, np.random.default_rng([seed, index]), causal)
        return targets

    def noted(self, report: "Report") -> "Report":
        """The report with the models and matrices that patterns were taken from."""
        from attncli.patterns._matrices import described

        said = {"models": self.models, "matrices": described(self.options.chosen)}
        input = {**report.input, **{key: value for key, value in said.items() if value}}
        return replace(report, input=input, warnings=(*self.warnings, *report.warnings))


def choose(
    options: PatternOptions,
    inputs: InputOptions,
    files: CheckpointOptions,
    seed: int,
    idle: Sequence[str] = (),
) -> ChosenPatterns:
    """Runs every model that a pattern names once, on the one text that is given.

    `idle`: options that mean nothing unless a pattern names a model.
    """
    from attncli.analysis.network_sources import refuse_other_files
    from attncli.patterns._heads import model_head
    from attncli.patterns._pattern_files import is_file, path_in

    for text in filter(is_file, options.chosen):
        refuse_other_files(str(path_in(text)), "approximate(pattern=FILE)")
    heads = [head for head in map(model_head, dict.fromkeys(options.chosen)) if head is not None]
    if not heads:
        if inputs.given():
            raise UsageError(
                "texts and tokens are for heads of models: give `pattern='MODEL:LAYER.HEAD:top=4'`, or leave them out.",
                about=inputs.given(),
            )
        if idle:
            raise UsageError(
                f"{said_of(idle, 'is', 'are')} for models that are run, and none is: give `pattern='MODEL:LAYER.HEAD:top=4'`, or leave {it_or_them(idle)} out.",
                about=idle,
            )
        return ChosenPatterns(options)
    maps: dict[str, csr_array] = {}
    models: dict[str, Any] = {}
    warnings: list[str] = []
    for model in dict.fromkeys(head.model for head in heads):
        own = [head for head in heads if head.model == model]
        found, models[model], told = maps_of(model, own, options, inputs, files, seed)
        maps |= found
        warnings += told
    return ChosenPatterns(options, maps, models, tuple(warnings))


def maps_of(
    model: str,
    heads: "list[ModelHead]",
    options: PatternOptions,
    inputs: InputOptions,
    files: CheckpointOptions,
    seed: int,
) -> "tuple[Mapping[str, csr_array], dict[str, Any], tuple[str, ...]]":
    """Maps of one model's heads, its identity, and what is to be said about it."""
    from attncli.analysis.fits.model_patterns import model_patterns
    from attncli.models.inputs.texts import ahead, inputs_of
    from attncli.models.loading.load import load

    wanted = inputs.to_read(options.length, seed)
    checkpoint = load(model, files.to_load(seed), ahead(wanted))
    texts = inputs_of(checkpoint, wanted)
    if len(texts) > 1:
        raise UsageError(f"{len(texts)} inputs are given: a pattern is a map of one, so give one.")
    maps = model_patterns(checkpoint, texts[0], heads)
    for text, found in maps.items():
        if options.length not in (None, found.shape[0]):
            raise UsageError(
                f"{text} has {found.shape[0]} tokens on this input, but `length` says {options.length}: leave it out.",
                about=["length"],
            )
    read = {"name": texts[0].name, "tokens": texts[0].tokens}
    return maps, {**checkpoint.identity, "input": read}, checkpoint.warnings
