"""How options are declared, once for Python and for the command line: each with its type, its default, one sentence.

    tokens: int | None = declare_option(metavar="N", help="Longest text.")
    seeds: int | None = declare_option(applies=Applies(to=("synthetic",)), help="…")
    path: list[str] | None = declare_option(applies=Applies(excludes=("sample",)), help="…")

The name is the field's own: `tokens=` in Python, `--tokens` on the command line. Options that several questions
share are the fields of a dataclass, a group. `Applies` says for which kinds of SOURCE, and with which other options,
one is valid: `option_combination_rules` applies these rules to typed options and to settings; nothing else checks
options by their names. Nothing here knows typer.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Any, get_args, get_type_hints

from attncli.io.file_kind_detection import FileKind
from attncli.model_and_file_sources import MODELS

DECLARATION = "declaration"
"""Its key in a field's metadata."""
Question = Callable[..., Any]
"""The function of a question, or of a command that is none: its parameters are the options."""
OptionValues = Mapping[str, Any]
"""Options by their parameters: texts, numbers, paths, flags, lists of them, and what Python alone can give."""

REQUIRED: Any = dataclasses.MISSING
"""The default of what has none."""
Complete = Callable[[str], list[str]]

NO_OPTIONS = ("how", "return")
"""Parameters of a question that are not options: its context and its return value."""

WORDLESS = "wordless"
"""Kind of a folder whose model has no vocabulary: it reads images or sounds."""
ANY_MODEL: tuple[str, ...] = (*MODELS, WORDLESS)
SYNTHETIC = ("synthetic",)
NETWORKS = ("synthetic", "network")
EVERY: tuple[str, ...] = (*SYNTHETIC, *ANY_MODEL, *get_args(FileKind))
TYPED = ("command line", "python")
ANYWHERE = (*TYPED, "environment", "file")
"""Who may set an option."""


@dataclass(frozen=True, slots=True)
class Applies:
    """When an option means something. Options are named as in Python, `token_ids`; one with a value `metric:gates`."""

    to: tuple[str, ...] = EVERY
    """Kinds of SOURCE."""
    needs: tuple[str, ...] = ()
    """One of these must be set, of those that the command has."""
    excludes: tuple[str, ...] = ()
    """Options that must not be set at the same time; declared at one of the two."""
    only: tuple[str, ...] = ()
    """Values of the option to which the rule applies; empty: to all."""
    unless: tuple[str, ...] = ()
    """Values of the option to which the rule does not apply."""
    set_by: tuple[str, ...] = ANYWHERE
    """Who may set the option; `why` then says what it does, of which only they decide."""
    why: str = ""
    """The message, where the default one does not fit: {name} is the option, {value} its value,
    {setting} the one with the other, {other} and {other_setting} the one that it excludes, {source} what SOURCE names."""

    def applies_to_value(self, value: object) -> bool:
        named = not self.only or any(is_matching_option_value(value, text) for text in self.only)
        return named and not any(is_matching_option_value(value, text) for text in self.unless)


def is_matching_option_value(value: object, text: str) -> bool:
    """Whether the value equals the text, begins with it (`tokens=4:8` with `tokens`), or contains
    it."""
    if isinstance(value, list | tuple):
        return any(
            is_matching_option_value(part, text) for each in value for part in str(each).split(",")
        )
    words = str(value).strip()
    return words == text or words.startswith((f"{text}=", f"{text}:"))


def is_reference_to_option_value(reference: str, name: str, value: object) -> bool:
    """Whether `metric:gates` or `metric` means this option with this value."""
    option, _, text = reference.partition(":")
    return option == name and (not text or is_matching_option_value(value, text))


RUNS_CODE = Applies(set_by=TYPED, why="lets a checkpoint run code")
RUNS_JOBS = Applies(set_by=TYPED, why="hands command lines to other programs and machines")
WRITES = Applies(set_by=TYPED, why="writes files")
DELETES = Applies(set_by=TYPED, why="deletes files")
"""Rules of options with these effects, which neither a file nor the environment may set."""


@dataclass(frozen=True, slots=True)
class Option:
    """The declaration of an option: all but its type and default."""

    help: str
    flags: tuple[str, ...] = ()
    """Spellings on the command line, where they do not follow from name and type: `--output`, `-o`."""
    metavar: str | None = None
    complete: Complete | None = None
    """Completes the beginning of a value."""
    panel: str | None = None
    """The heading that help shows it under."""
    usual: bool = False
    """Whether it is common: `--help` of a command with many options shows only these, `--help-all`
    all."""
    applies: tuple[Applies, ...] = ()
    """Rules on kinds of SOURCE, on other options and on who may set it; all of them must hold."""
    of_any_model: bool = False
    """Whether [model] of a configuration file sets it, in every command that runs a model."""
    in_words: Callable[[Any], Any] | None = None
    """Converts Python-only values, such as a matrix or a list of numbers, to the text or texts of
    the option."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of the command line; the first parameter in Python."""

    metavar: str
    help: str
    complete: Complete | None = None
    takes_reports: bool = False
    """Whether in Python a report object may be passed in place of its file."""


def declare_option(
    *flags: str, default: Any = None, applies: Applies | tuple[Applies, ...] = (), **described: Any
) -> Any:
    """Declare a parameter of a question, or a field of a group: its default, and what an `Option` says of it."""
    rules = (applies,) if isinstance(applies, Applies) else applies
    return declare_dataclass_field(Option(flags=flags, applies=rules, **described), default)


def declare_argument(default: Any = REQUIRED, **described: Any) -> Any:
    """Declare a positional argument of a question: what an `Argument` says of it."""
    return declare_dataclass_field(Argument(**described), default)


def declare_dataclass_field(declaration: Option | Argument, default: Any) -> Any:
    metadata = {DECLARATION: declaration}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def list_option_flags(option: Option, name: str, kind: Any) -> tuple[str, ...]:
    """Spellings on the command line; what may be set either way has two names: `--skip/--no-skip`."""
    names = (name, f"no_{name}") if bool in get_args(kind) else (name,)
    return option.flags or ("/".join("--" + each.replace("_", "-") for each in names),)


Rules = Mapping[str, tuple[Applies, ...]]
"""The rules of every option of a command, by its name."""


def list_parameters_of_flattened_groups(function: Question) -> Iterator[inspect.Parameter]:
    """The function's parameters with every group replaced by its fields, annotations whole."""
    hints = get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in NO_OPTIONS:
            continue
        kind, default = hints[parameter.name], parameter.default
        if dataclasses.is_dataclass(kind):
            yield from list_parameters_of_option_group(kind)
        elif isinstance(default, dataclasses.Field):
            yield convert_option_field_to_parameter(parameter.name, default, kind)
        else:
            yield parameter.replace(annotation=kind, kind=parameter.KEYWORD_ONLY)


def list_parameters_of_option_group(group: Any) -> Iterator[inspect.Parameter]:
    """A group's fields, each as a keyword."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        yield convert_option_field_to_parameter(field.name, field, hints[field.name])


def convert_option_field_to_parameter(
    name: str, field: "dataclasses.Field[Any]", kind: Any
) -> inspect.Parameter:
    """A declared option as a keyword, its declaration in its annotation."""
    default = inspect.Parameter.empty if field.default is REQUIRED else field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    annotation = Annotated[kind, field.metadata[DECLARATION]] if field.metadata else kind
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def build_dataclasses_of_option_groups(function: Question, values: OptionValues) -> OptionValues:
    """Flat values as the function takes them: those of a group as the filled dataclass."""
    rest = dict(values)
    found = {}
    for name, kind in get_type_hints(function).items():
        if name not in NO_OPTIONS and isinstance(kind, type) and dataclasses.is_dataclass(kind):
            members = {field.name: rest.pop(field.name) for field in dataclasses.fields(kind)}
            found[name] = kind(**members)
    return rest | found


def collect_option_rules(declared: Iterable[inspect.Parameter]) -> Rules:
    """Collect the rules of every option of a command."""
    annotations = {each.name: get_args(each.annotation)[1:] for each in declared}
    return {
        name: next((one.applies for one in each if isinstance(one, Option)), ())
        for name, each in annotations.items()
    }


def differs_from_option_default(declared: inspect.Parameter, value: object) -> bool:
    """Whether the value differs from the default."""
    if value is None or (isinstance(value, list | tuple) and not value):
        return False
    return hasattr(type(value), "shape") or bool(value != declared.default)


def join_number_lists_with_commas(value: object) -> Any:
    """`[1, 2, 3]`, an array or a tensor is one text, `1,2,3`; a list of such, or a matrix, is several."""
    if isinstance(value, str | PathLike) or not isinstance(value, Iterable):
        return value
    try:
        plain = value.tolist() if hasattr(value, "tolist") else list(value)
    except (NotImplementedError, RuntimeError, TypeError):
        # a tensor without numbers, or of another layout
        return value
    if not isinstance(plain, list):
        return value
    if plain and all(map(is_whole_number, plain)):
        return ",".join(str(int(each)) for each in plain)
    return [join_number_lists_with_commas(each) for each in plain]


def is_whole_number(value: object) -> bool:
    """Whether the value is a whole number of any library; True and False are not."""
    return (
        hasattr(value, "__index__")
        and not isinstance(value, bool)
        and not getattr(value, "shape", ())
    )
