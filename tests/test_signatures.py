"""Signatures that a reader can hold in mind, and types that say something."""

import ast
import tokenize
from collections.abc import Iterator
from pathlib import Path

from source_trees import nodes_of

import attncli

PACKAGE = Path(attncli.__file__).parent
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

MANY = 8
"""Parameters of a function, or arguments without names in a call, that nobody keeps apart."""

MANY_PARAMETERS = 18
"""Functions that still have so many. The number only falls."""

ANYTHING = 619
"""How often `Any` occurs, and how often mypy is told to ignore a line. The numbers only fall."""
IGNORED = 30


def nodes() -> Iterator[tuple[str, ast.AST]]:
    return ((name, node) for name, path in FILES.items() for node in nodes_of(path))


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    rest = [each.arg for each in (given.vararg, given.kwarg) if each]
    return [name for name in (*named, *rest) if name not in ("self", "cls")]


def is_question(function: ast.FunctionDef) -> bool:
    """Whether its parameters are the options of a command."""
    declared = " ".join(map(ast.unparse, function.decorator_list))
    return (
        "question(" in declared
        or "flatten_option_groups" in declared
        or function.name in attncli.PUBLIC
    )


def test_functions_with_many_parameters_become_fewer() -> None:
    many = [
        f"{name}: {node.name}"
        for name, node in nodes()
        if isinstance(node, ast.FunctionDef) and len(parameters(node)) >= MANY
        if not is_question(node) and node.name != "__init__"
    ]
    assert len(many) <= MANY_PARAMETERS, many


def test_no_call_has_many_arguments_without_names() -> None:
    """But of functions that take any number of the same kind, and of decorators: `@rule(torch.add, torch.sub, …)`."""
    decorators = {id(each) for _, node in nodes() for each in getattr(node, "decorator_list", ())}
    takes_lists = {
        node.name for _, node in nodes() if isinstance(node, ast.FunctionDef) and node.args.vararg
    }
    many = [
        f"{name}:{node.lineno}: {ast.unparse(node.func)}"
        for name, node in nodes()
        if isinstance(node, ast.Call) and len(node.args) >= MANY and id(node) not in decorators
        if ast.unparse(node.func) not in takes_lists
    ]
    assert many == []


def test_studies_say_what_they_are_called_with() -> None:
    """`Study` and its like, and no `Callable[..., Report]`."""
    texts = {
        f"{name}: {text}"
        for name, node in nodes()
        for text in [
            ast.unparse(node) if isinstance(node, ast.Subscript) else "",
            str(node.value) if isinstance(node, ast.Constant) else "",
        ]
        if text.startswith("Callable[...,") and "Report]" in text.replace("'", "").replace('"', "")
    }
    assert texts == set()


def tokens(kind: int, text: str) -> Iterator[str]:
    """Tokens that have the text in them."""
    for path in FILES.values():
        if text.encode() in path.read_bytes():
            with path.open("rb") as file:
                found = tokenize.tokenize(file.readline)
                yield from (
                    each.string for each in found if each.type == kind if text in each.string
                )


def test_any_and_ignored_lines_become_fewer() -> None:
    assert sum(text == "Any" for text in tokens(tokenize.NAME, "Any")) <= ANYTHING
    assert sum(1 for _ in tokens(tokenize.COMMENT, "type: ignore")) <= IGNORED
