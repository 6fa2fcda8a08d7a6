"""The docstring of a package ends in an example of what it is for, and the example holds."""

import ast
import doctest
from pathlib import Path

import pytest

import attncli

PACKAGE = Path(attncli.__file__).parent
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text())) or ""


BELOW = [
    name
    for path in sorted(PACKAGE.glob("*/**/__init__.py"))
    if (name := path.parent.relative_to(PACKAGE).as_posix()) not in PACKAGES
    if ">>>" in docstring(name)
]
"""Packages inside these that have an example as well."""


@pytest.mark.parametrize("name", [*PACKAGES, *BELOW])
def test_the_example_of_a_package_holds(name: str) -> None:
    text = docstring(name)
    assert ">>>" in text.rpartition("\n\n")[2], "the last paragraph is an example"
    examples = doctest.DocTestParser().get_doctest(text, {}, name, f"{name}/__init__.py", 0)
    assert 2 <= len(examples.examples) <= (14 if name in PACKAGES else 6)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert said == []
