"""Programs that tests hand to other processes name what the package has: no tool sees into a string that renames the rest."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from documents import PACKAGE
from source_trees import nodes_of, tree_of

TESTS = Path(__file__).parent
FILES = [path for path in sorted(TESTS.rglob("*.py")) if "attncli" in path.read_text()]


def programs(path: Path) -> Iterator[ast.Module]:
    """Strings that are Python and import something of the package."""
    for node in nodes_of(path):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and "from attncli" in text and "import" in text:
            try:
                yield ast.parse(text)
            except SyntaxError:  # a sentence, or a part of an f-string
                continue


def file_of(module: str) -> Path | None:
    place = PACKAGE.parent.joinpath(*module.split("."))
    found = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in found if file.exists()), None)


@cache
def names_in(file: Path) -> set[str]:
    """What a module defines or imports, at any depth: some only where a system has it."""
    tree = tree_of(file)
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}  # fmt: skip
    imported = {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    set_here = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip
    return defined | imported | set_here


def defining_file(file: Path, name: str) -> Path:
    """The file that a module imports the name from, or the module's own."""
    for node in nodes_of(file):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return file_of(node.module or "") or file
    return file


def missing_in(program: ast.Module) -> Iterator[str]:
    """Names that are imported, and attributes of modules that are replaced."""
    modules: dict[str, Path] = {}
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attncli."):
            file = file_of(node.module or "")
            for alias in node.names:
                inner = file_of(f"{node.module}.{alias.name}")
                if inner is not None:
                    modules[alias.asname or alias.name] = inner
                elif file is None or alias.name not in names_in(file):
                    yield f"from {node.module} import {alias.name}"
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            file = modules.get(node.value.id)
            if file is not None and node.attr not in names_in(file):
                yield f"{node.value.id}.{node.attr}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            module, of_class = node.value.value, node.value.attr
            file = modules.get(module.id) if isinstance(module, ast.Name) else None
            if file is not None and node.attr not in names_in(defining_file(file, of_class)):
                yield f"{of_class}.{node.attr}"


def test_every_name_in_a_program_is_there() -> None:
    missing = {
        str(path.relative_to(TESTS)): name
        for path in FILES
        for program in programs(path)
        for name in missing_in(program)
    }
    assert not missing


def test_some_programs_are_found() -> None:
    assert sum(1 for path in FILES for _ in programs(path)) > 10
