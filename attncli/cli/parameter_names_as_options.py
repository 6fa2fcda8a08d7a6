"""Spell parameters in sentences as options: "lower `tokens`" is "lower --tokens" on the command
line.

Errors raised outside the command line are written for callers in Python, in backticks: a parameter,
perhaps with its value, or a call. Only this module turns them into command-line spelling.

    `tokens`                          --tokens
    `dtype='float64'`                 --dtype float64
    `skip=False`, `exact=True`        --no-skip, --exact
    `layers=5, heads=1`               --layers 5 --heads 1
    `approximate(decide=True)`         attn approximate --decide
"""

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache

TEXT = r"'(?:[^'\\]|\\.)*'" + r'|"(?:[^"\\]|\\.)*"'
QUOTED = re.compile(rf"`((?:[^`'\"\n]|{TEXT})+)`")
"""Code in backticks; backticks within a string literal do not end it."""
BY_OTHER_WAYS = {
    "source": "SOURCE",
    "save_module": "-o FILE.safetensors",
    "pictures": "--plot",
    "progress": "--no-progress",
    "torchrun": "--processes N",
}
"""Parameters of Python that are no option of the same name."""


def replace_parameters_by_options(sentence: str) -> str:
    """The sentence with every parameter in it as its option; other words in backticks stay."""
    if "`" not in sentence:
        return sentence
    options, commands = list_option_and_command_names()

    def replace_matched_parameter(match: re.Match[str]) -> str:
        return python_call_to_command_line(match[1], options, commands) or match[0]

    return QUOTED.sub(replace_matched_parameter, sentence)


@cache
def list_option_and_command_names() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Options by parameter, commands by function, of the whole command line."""
    from attncli.cli.command_tree import iterate_commands, root_command

    options, commands = dict(BY_OTHER_WAYS), {}
    for path, command in iterate_commands(root_command(), ()):
        commands["_".join(path).replace("-", "_")] = " ".join(("attn", *path))
        for one in command.params:
            if one.param_type_name == "option":
                options.setdefault(one.name, one.opts[0])
    return options, commands


def python_call_to_command_line(
    code: str, options: Mapping[str, str], commands: Mapping[str, str]
) -> str | None:
    """Spell a call; None where the code names no parameter and no question."""
    if code in options:
        return options[code]
    if code in commands:
        return commands[code]
    call = parse_python_call(code) or parse_python_call(f"_({code})")
    if call is None or any(each.arg not in options for each in call.keywords):
        return None
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in ("_", *commands) or (name == "_" and (call.args or not call.keywords)):
        return None
    first = [commands[name]] if name in commands else []
    return " ".join(
        [
            *first,
            *format_positional_arguments(name, call.args),
            *(format_keyword_as_option(each, options) for each in call.keywords),
        ]
    )


def parse_python_call(code: str) -> ast.Call | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = ast.parse(code, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return found if isinstance(found, ast.Call) else None


def format_positional_arguments(name: str, arguments: list[ast.expr]) -> Iterator[str]:
    """Spell positional arguments: SOURCE, or the file to write."""
    for each in arguments:
        if name.startswith("generate"):
            yield "-o"
        yield format_literal_for_command_line(each)


def format_keyword_as_option(keyword: ast.keyword, options: Mapping[str, str]) -> str:
    """Spell a keyword with its value as an option; a switch has no value."""
    flag = options[keyword.arg or ""].partition(" ")[0]
    if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool):
        return flag if keyword.value.value else flag.replace("--", "--no-", 1)
    return f"{flag} {format_literal_for_command_line(keyword.value)}"


def format_literal_for_command_line(node: ast.expr) -> str:
    """Spell a value: strings without quotes, an ellipsis as a placeholder."""
    if isinstance(node, ast.Constant):
        return "…" if node.value is ... else str(node.value)
    return ast.unparse(node)
