"""Decide which typed options and settings of the environment or a file apply to a run, by its SOURCE and by each other.

Typed options must satisfy all declared rules (`applies`), or are refused. A setting that does not
apply is left out; two settings that exclude each other are an error with the lines of both.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from attncli.declare.command_table import COMMANDS
from attncli.declare.option_declarations import (
    ANY_MODEL,
    WORDLESS,
    Applies,
    OptionValues,
    Rules,
    is_reference_to_option_value,
)
from attncli.errors import (
    UsageError,
    choose_it_or_them,
    format_parameter_list,
    format_parameters_with_verb,
    quote_parameter_name,
)
from attncli.model_and_file_sources import MODELS, WORDS, Source, parse_source

SENSED = ("image_size", "num_channels", "num_mel_bins", "frame_length")
"""Sizes in a config.json that only models of images and sounds have."""
OF_TEXT = re.compile("vocab|text|words|token")
"""Names in the config of a model that reads text, or has a part that does."""


@dataclass(frozen=True, slots=True)
class RunSource:
    """SOURCE, its kind as the rules of options name it, and how a model would be named."""

    source: Source
    kind: str
    named_by: str = "name one as `source`"


def find_model_source_of_run(command: str, values: OptionValues) -> RunSource | None:
    """The subject of a run; None where it does not matter, or where the question refuses the
    SOURCE."""
    if "pattern" in values and "source" not in values:
        return find_model_named_in_patterns(values["pattern"])
    if "source" not in values or command not in COMMANDS:
        return None
    takes = COMMANDS[command].takes
    if not set(takes) & set(MODELS):  # a report, for which no option depends on the SOURCE
        return None
    source = parse_source(values["source"])
    if source.kind not in takes:
        return None
    wordless = source.kind == "folder" and is_config_of_image_or_audio_model(source.path)
    return RunSource(source, WORDLESS if wordless else source.kind)


def find_model_named_in_patterns(patterns: Any) -> RunSource:
    """Heads of models may be patterns."""
    from attncli.patterns._pattern_text_grammar import parse_attention_head_of_model

    heads = [
        head for text in patterns or () if (head := parse_attention_head_of_model(text)) is not None
    ]
    source = Source("hub", heads[0].model) if heads else Source("synthetic")
    return RunSource(source, source.kind, named_by="give `pattern='MODEL:LAYER.HEAD:top=4'`")


def is_config_of_image_or_audio_model(folder: Path) -> bool:
    """Whether the config.json names sizes of images or sounds, and nothing of a text."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # whoever loads it says what is wrong with it
        return False
    if not isinstance(config, dict):
        return False
    return any(name in config for name in SENSED) and not any(map(OF_TEXT.search, config))


@dataclass(frozen=True, slots=True)
class SetOption:
    """An option that is set."""

    name: str
    value: object
    where: str = ""
    """The line of the file, or the variable, that sets it; empty where it was typed."""
    of_any_model: bool = False
    """Whether it is set for all questions about models, so that whatever is set for this one goes before it."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The values that apply to a run."""

    values: OptionValues
    left_out: Mapping[str, str]
    """Defaults that do not fit, each with the reason."""


def refuse_or_drop_inapplicable_options(
    rules: Rules, options: Sequence[SetOption], subject: RunSource | None
) -> Settled:
    """Refuse typed options that break a rule; leave out settings that do not apply."""
    typed = [one for one in options if not one.where]
    refuse_options_for_other_model_sources(rules, typed, subject)
    refuse_mutually_exclusive_options(rules, typed, subject)
    left_out: dict[str, str] = {}
    defaults: list[SetOption] = []
    for one in sorted((one for one in options if one.where), key=lambda one: one.of_any_model):
        before = [each for each in defaults if one.of_any_model and not each.of_any_model]
        reason = explain_why_setting_does_not_apply(rules, one, [*typed, *before], subject)
        if reason is None:
            defaults.append(one)
        else:
            left_out[one.name] = reason
    while lacking := {
        one.name: lack
        for one in defaults
        if (lack := explain_missing_required_option(rules, one, [*typed, *defaults]))
    }:
        left_out |= lacking
        defaults = [one for one in defaults if one.name not in lacking]
    refuse_mutually_exclusive_options(rules, defaults, subject)
    refuse_options_without_required_ones(rules, typed, [*typed, *defaults])
    return Settled({one.name: one.value for one in (*typed, *defaults)}, left_out)


def explain_why_setting_does_not_apply(
    rules: Rules, one: SetOption, before: Iterable[SetOption], subject: RunSource | None
) -> str | None:
    """Why a setting does not apply, given what goes before it; None if it does."""
    rule = find_rule_violated_by_model_source(rules, one, subject)
    if rule is not None and subject is not None:
        return describe_unaccepted_model_source(rule, [one], subject)
    return next(
        filter(
            None,
            (explain_why_options_exclude_each_other(rules, one, each, subject) for each in before),
        ),
        None,
    )


def refuse_options_for_other_model_sources(
    rules: Rules, typed: Iterable[SetOption], subject: RunSource | None
) -> None:
    """All that are refused for one reason, in one sentence."""
    refused: dict[Applies, list[SetOption]] = {}
    for one in typed:
        rule = find_rule_violated_by_model_source(rules, one, subject)
        if rule is not None:
            same = Applies(why=rule.why) if rule.why or is_model_source(subject) else rule
            refused.setdefault(same, []).append(one)
    if subject is not None:
        for rule, names in refused.items():
            annotations = describe_unaccepted_model_source(rule, names, subject)
            raise UsageError(annotations, about=[one.name for one in names])


def refuse_mutually_exclusive_options(
    rules: Rules, options: Sequence[SetOption], subject: RunSource | None
) -> None:
    for one, other in combinations(options, 2):
        reason = explain_why_options_exclude_each_other(rules, one, other, subject)
        if reason is not None:
            places = ", ".join(dict.fromkeys(filter(None, (one.where, other.where))))
            annotations = f"{places}: {reason}" if places else reason
            raise UsageError(annotations, about=[one.name, other.name])


def refuse_options_without_required_ones(
    rules: Rules, typed: Iterable[SetOption], options: Sequence[SetOption]
) -> None:
    for one in typed:
        lack = explain_missing_required_option(rules, one, options)
        if lack is not None:
            raise UsageError(lack, about=[one.name])


def find_rule_violated_by_model_source(
    rules: Rules, one: SetOption, subject: RunSource | None
) -> Applies | None:
    """The rule of the option that names other kinds of SOURCE, if any."""
    if subject is None:
        return None
    own = [rule for rule in rules.get(one.name, ()) if rule.applies_to_value(one.value)]
    if one.of_any_model:
        own.append(Applies(to=ANY_MODEL))
    return next((rule for rule in own if subject.kind not in rule.to), None)


def is_model_source(subject: RunSource | None) -> bool:
    return subject is not None and subject.kind in ANY_MODEL


def describe_unaccepted_model_source(
    rule: Applies, options: Sequence[SetOption], subject: RunSource
) -> str:
    names, source = [format_boolean_option(one) for one in options], subject.source
    if rule.why:
        return format_rule_reason(rule, options[0], source=str(source))
    if is_model_source(subject):
        return f"{format_parameters_with_verb(names, 'goes', 'go')} with synthetic networks: {source} is a model."
    if source.is_file and "synthetic" in rule.to:
        return f"{format_parameter_list(names)} cannot be changed: {source} fixes {choose_it_or_them(names)}."
    what = f"{source} is {WORDS[source.kind].what}" if source.is_file else subject.named_by
    return f"{format_parameters_with_verb(names, 'goes', 'go')} with a model: {what}."


def explain_why_options_exclude_each_other(
    rules: Rules, one: SetOption, other: SetOption, subject: RunSource | None
) -> str | None:
    """Why the two do not go together, whichever declares it."""
    source = "" if subject is None else str(subject.source)
    for own, its in ((one, other), (other, one)):
        for rule in rules.get(own.name, ()):
            excluded = any(
                is_reference_to_option_value(each, its.name, its.value) for each in rule.excludes
            )
            if not excluded or not rule.applies_to_value(own.value):
                continue
            if rule.why:
                setting = f"`{its.name}={its.value!r}`"
                others = {"other": quote_parameter_name(its.name), "other_setting": setting}
                return format_rule_reason(rule, own, **others, source=source)
            both = format_parameter_list(
                sorted((own.name, its.name), key=[*rules, own.name, its.name].index), " and "
            )
            return f"{both} exclude each other: leave one out."
    return None


def format_boolean_option(one: SetOption) -> str:
    """Spell a switch, such as `skip=False`."""
    return f"{one.name}=False" if one.value is False else one.name


def explain_missing_required_option(
    rules: Rules, one: SetOption, options: Sequence[SetOption]
) -> str | None:
    """The option that this one needs and that is not set, as a message; None if there is none."""
    for rule in rules.get(one.name, ()):
        known = {*rules, *(each.name for each in options)}
        needed = [each for each in rule.needs if each.partition(":")[0] in known]
        there = any(
            is_reference_to_option_value(each, its.name, its.value)
            for each in needed
            for its in options
        )
        if needed and not there and rule.applies_to_value(one.value):
            names = dict.fromkeys(each.partition(":")[0] for each in needed)
            usual = f"{quote_parameter_name(one.name)} goes with {format_parameter_list(names, ' or ')}: add one."
            return format_rule_reason(rule, one) if rule.why else usual
    return None


def format_rule_reason(rule: Applies, one: SetOption, **others: str) -> str:
    name, setting = quote_parameter_name(one.name), f"`{one.name}={one.value!r}`"
    return rule.why.format(name=name, value=one.value, setting=setting, **others)
