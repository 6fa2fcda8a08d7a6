"""The patterns of a run: built in, from files, and heads of models with the maps that they have on a text."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError
from attncli.options.model_and_input import CheckpointOptions, InputOptions
from attncli.options.pattern_approximation import DEFAULT_LENGTH, PatternOptions
from attncli.records import Facts, JsonObject

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from attncli.patterns._pattern_text_grammar import ModelHead
    from attncli.records import Report


@dataclass(frozen=True)
class ChosenPatterns:
    """The target patterns, after any forward passes that they need."""

    options: PatternOptions
    maps: "Mapping[str, csr_array]" = field(default_factory=dict)
    """Of the patterns that are heads of models, by their words."""
    models: Facts = field(default_factory=dict)
    """Those models' identities and inputs, for the report."""
    warnings: tuple[str, ...] = ()

    def build_targets(self, seed: int, causal: bool) -> "dict[str, csr_array]":
        """Build every pattern, each from its own random stream of the seed."""
        import numpy as np

        from attncli.patterns import build_pattern
        from attncli.patterns._check_pattern import check_pattern_rows
        from attncli.patterns._make_sparse_pattern import normalise_pattern_rows
        from attncli.patterns._pattern_text_grammar import is_pattern_file
        from attncli.patterns._user_matrices import UserMatrix

        targets: dict[str, csr_array] = {}
        for index, text in enumerate(self.options.pattern_names_or_default):
            if isinstance(text, UserMatrix):
                targets[text] = normalise_pattern_rows(
                    text.to_checked_pattern(self.options.length, causal)
                )
                continue
            if text in self.maps:
                check_pattern_rows(text, self.maps[text], causal)
                targets[text] = normalise_pattern_rows(self.maps[text])
                continue
            length = self.options.length
            if length is None and not is_pattern_file(text):
                length = DEFAULT_LENGTH
            targets[text] = build_pattern(
                text, length, np.random.default_rng([seed, index]), causal
            )
        return targets

    def add_pattern_origins_to_report(self, report: "Report") -> "Report":
        """The report with the models and matrices that patterns were taken from."""
        from attncli.patterns._user_matrices import UserMatrix

        own = [
            each for each in self.options.pattern_names_or_default if isinstance(each, UserMatrix)
        ]
        matrices = {str(each): each.describe() for each in own}
        described = {"models": self.models, "matrices": matrices}
        input = {**report.input, **{key: value for key, value in described.items() if value}}
        return replace(report, input=input, warnings=(*self.warnings, *report.warnings))


def collect_target_patterns(
    options: PatternOptions, inputs: InputOptions, files: CheckpointOptions, seed: int
) -> ChosenPatterns:
    """Run every model that a pattern names once, on the one text provided."""
    from attncli.analysis.source_argument_checks import refuse_files_of_wrong_kind
    from attncli.patterns._pattern_text_grammar import (
        is_pattern_file,
        parse_attention_head_of_model,
        path_in_pattern_text,
    )

    for text in filter(is_pattern_file, options.pattern_names_or_default):
        refuse_files_of_wrong_kind(str(path_in_pattern_text(text)), "approximate(pattern=FILE)")
    heads = [
        head
        for head in map(
            parse_attention_head_of_model, dict.fromkeys(options.pattern_names_or_default)
        )
        if head is not None
    ]
    maps: dict[str, csr_array] = {}
    models: JsonObject = {}
    warnings: list[str] = []
    for model in dict.fromkeys(head.model for head in heads):
        own = [head for head in heads if head.model == model]
        found, models[model], notes = capture_head_maps(model, own, options, inputs, files, seed)
        maps |= found
        warnings += notes
    return ChosenPatterns(options, maps, models, tuple(warnings))


def capture_head_maps(
    model: str,
    heads: "list[ModelHead]",
    options: PatternOptions,
    inputs: InputOptions,
    files: CheckpointOptions,
    seed: int,
) -> "tuple[Mapping[str, csr_array], dict[str, Any], tuple[str, ...]]":
    """Capture maps of one model's heads; return them, the model's identity, and warnings."""
    from attncli.analysis.fits.model_patterns import capture_model_patterns
    from attncli.models.inputs.requested_inputs import check_config_and_tokenizer, make_model_inputs
    from attncli.models.loading.load_model import load_model

    requested = inputs.build_requested_input(options.length, seed)
    checkpoint = load_model(
        model, files.build_model_load_options(seed), partial(check_config_and_tokenizer, requested)
    )
    texts = make_model_inputs(checkpoint, requested)
    if len(texts) > 1:
        raise UsageError(f"{len(texts)} inputs are given: a pattern is a map of one, so give one.")
    maps = capture_model_patterns(checkpoint, texts[0], heads)
    for text, found in maps.items():
        if options.length not in (None, found.shape[0]):
            raise UsageError(
                f"{text} has {found.shape[0]} tokens on this input, but `length` says {options.length}: leave it out.",
                about=["length"],
            )
    read = {"name": texts[0].name, "tokens": texts[0].tokens}
    return maps, {**checkpoint.identity, "input": read}, checkpoint.warnings
