"""The docstring of a question with a line for every keyword, in the words of Python."""

import inspect
import re
from collections.abc import Iterable

from attncli.declare.option_declarations import Argument, Option
from attncli.declare.option_value_conversion import (
    find_metavar_of_parameter,
    split_type_and_declarations,
)
from attncli.python.build_python_signatures import SOURCE


def add_keyword_help(docstring: str | None, parameters: Iterable[inspect.Parameter]) -> str:
    """The docstring with a line for every keyword, in Python's words."""
    lines = [f"    {each.name}: {format_keyword_help_text(each)}" for each in parameters]
    return "\n".join(
        [replace_options_by_keywords(inspect.cleandoc(docstring or "")), "", "Keywords:", *lines]
    )


def format_keyword_help_text(parameter: inspect.Parameter) -> str:
    _, annotations = split_type_and_declarations(parameter)
    text = next((one.help for one in annotations if isinstance(one, Option | Argument)), "")
    more = " Or a module that you hold." if parameter.name == SOURCE else ""
    form = find_metavar_of_parameter(parameter)
    choices = f"{form} – " if CHOICES.search(form) else ""
    return choices + replace_options_by_keywords(text) + more


CHOICES = re.compile(r"[a-z].*[|=]|[|=].*[a-z]")
"""A metavar that lists its values, such as `cpu|cuda[:N]|mps`."""
COMMAND = re.compile(r"`([a-z]+(?:-[a-z]+)*) --([a-z-]+) ([^` ]+)`")
NOT = re.compile(r"--no-(skip|mlp|mlp-skip|biases)(?![\w-])")
FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")
IN_OTHER_WORDS = (
    (re.compile(r"-o\s+FILE\.safetensors"), "`save_module`"),
    (re.compile(r"\bSOURCE\b"), "`source`"),
    (re.compile(r"\bRepeatable\."), "One or several."),
)


def replace_options_by_keywords(text: str) -> str:
    """Convert option names in a help text to keywords: `--with-random-init` becomes
    `with_random_init`."""
    text = COMMAND.sub(
        lambda found: f"`{flag_to_keyword(found[1])}({flag_to_keyword(found[2])}={found[3]!r})`",
        text,
    )
    text = NOT.sub(lambda found: f"`{flag_to_keyword(found[1])}=False`", text)
    text = FLAG.sub(lambda found: f"`{flag_to_keyword(found[1])}`", text)
    for words, others in IN_OTHER_WORDS:
        text = words.sub(others, text)
    return text


def flag_to_keyword(flag: str) -> str:
    return flag.replace("-", "_")
