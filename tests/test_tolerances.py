"""Tolerances of verifications are in one table, and nowhere else."""

import ast
import math
import re
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from source_trees import nodes_of

import attncli
from attncli.tolerances import EPSILON, TABLE, Tolerance

PACKAGE = Path(attncli.__file__).parent
SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.stem != "tolerances"]

VERIFY = ("ablation", "analysis", "capture", "commands", "gates", "head_weights", "io", "models", "networks",
          "processes", "python", "reports", "tensor_subclasses", "training")  # fmt: skip
"""Packages that verify: a number written like 1e-5 is a tolerance there, unless it is listed below."""

NO_TOLERANCE = {
    "capture/other_mixers/token_mixers.py": ["1e-3"],  # noise where a state is zero
    "capture/verify_captured_attention.py": ["1e-30"],  # no division by zero
    "commands/head_capacity/one_head/search_tokens_for_pattern.py": ["1e-30"],  # the same
    "commands/reproduce/circle/network_design.py": ["1e-12"],  # ε of a norm
    "commands/reproduce/circle/experiment_settings.py": ["1e-5"],  # a learning rate
    "commands/reproduce/path_subnetworks.py": ["1e-12"],  # ε of a norm
    "commands/reproduce/tasks/convex_hull.py": ["1e-3"],  # a learning rate
    "commands/reproduce/tasks/memorise.py": ["3e-4", "1e-3"],  # learning rates
    "commands/reproduce/tasks/sort.py": ["1e-3"],  # a learning rate
    "networks/network_spec.py": ["1e-5", "1e-100"],  # ε of a norm, the least scale of weights
    "tensor_subclasses/torch_function_rules.py": ["1e-5"],  # torch's default ε of a norm
    "tensor_subclasses/path_streams/path_tensor_attention.py": ["1e-30"],  # no division by zero
    "tensor_subclasses/residual_split/handwritten_norm_layers.py": ["1e-2", "1e-3", "1e-5"],  # sizes of tokens
}  # fmt: skip

SCIENTIFIC = re.compile(r"\d[\d.]*[eE]-\d+")
EXPLAINED = re.compile(r"Compares .+: .+\.\n\n.+\.\n", re.DOTALL)
"""What is compared: by which norm. Why so far."""
RELATIVE = {"rtol", "atol", "rel_tol", "abs_tol"}


def small_numbers(path: Path) -> list[str]:
    """Numbers that are written like 1e-5."""
    if not SCIENTIFIC.search(path.read_text()):
        return []
    with path.open("rb") as file:
        found = [each.string for each in tokenize.tokenize(file.readline) if each.type == tokenize.NUMBER]  # fmt: skip
    return [text for text in found if SCIENTIFIC.fullmatch(text)]


def has_number(node: ast.AST) -> bool:
    numbers = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(value, float) and value != 0.0 for value in numbers)


def reads_epsilon(node: ast.AST) -> bool:
    """`torch.finfo(x.dtype).eps`."""
    return isinstance(node, ast.Attribute) and node.attr == "eps" and "finfo(" in ast.unparse(node)


def stray_tolerances(path: Path) -> list[str]:
    """Numbers given as rtol and the like, and multiples of ε."""
    name, found = path.relative_to(PACKAGE).as_posix(), []
    for node in nodes_of(path):
        told = [
            isinstance(node, ast.keyword) and node.arg in RELATIVE and has_number(node.value),
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.Mult, ast.Pow))
            and any(map(reads_epsilon, (node.left, node.right)))
            and name.startswith(VERIFY),
        ]
        found += [f"{name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"] if any(told) else []
    return found


def test_no_verification_has_a_tolerance_of_its_own() -> None:
    assert [each for path in SOURCES for each in stray_tolerances(path)] == []
    small = {
        name: found
        for path in SOURCES
        if (name := path.relative_to(PACKAGE).as_posix()).startswith(VERIFY)
        and (found := small_numbers(path))
    }
    assert small == NO_TOLERANCE


def docstrings_of_table() -> dict[str, str]:
    """What stands below each assignment of the table's file."""
    body = ast.parse((PACKAGE / "tolerances.py").read_text()).body
    return {
        each.targets[0].id: ast.literal_eval(below.value)
        for each, below in pairwise(body)
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Name)
        and isinstance(below, ast.Expr)
    }


def test_every_tolerance_is_explained_and_taken() -> None:
    sources = "".join(path.read_text() for path in SOURCES)
    found = docstrings_of_table()
    for name, tolerance in TABLE.items():
        assert EXPLAINED.fullmatch(found[name]), name
        assert math.isfinite(tolerance.tolerance_for_dtype()), name
        assert f"{name}.tolerance_for_dtype(" in sources or f"{name} if" in sources, name


@pytest.mark.parametrize("name", EPSILON)
def test_epsilon_is_that_of_torch(name: str) -> None:
    assert EPSILON[name] == torch.finfo(getattr(torch, name)).eps
    assert Tolerance(roundings=3).tolerance_for_dtype(getattr(torch, name)) == 3 * EPSILON[name]


def test_a_dtype_that_is_not_named_has_the_tolerance_of_float32() -> None:
    tolerance = Tolerance(number=1e-4, by_dtype={"float64": 1e-9})
    assert [tolerance.tolerance_for_dtype(each) for each in (torch.float32, torch.bfloat16, torch.complex128)] == [1e-4, 1e-4, 1e-9]  # fmt: skip
    assert Tolerance(roundings=1e6, most=0.05).tolerance_for_dtype(torch.float16) == 0.05
