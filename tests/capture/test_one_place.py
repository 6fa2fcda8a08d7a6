"""What changes a running model is done in one file, so that one file must restore it."""

import ast
from pathlib import Path
from typing import Any

import pytest
import torch
from source_trees import nodes_of
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

import attncli
from attncli.capture.attention_function_registry import swap_attention_functions
from attncli.capture.forward_wrappers import hook_forwards

PACKAGE = Path(attncli.__file__).parent
FILES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
         "register_full_backward_pre_hook", "register_module_forward_hook", "register_module_forward_pre_hook")  # fmt: skip
INTERFACE = ("_global_mapping", "ALL_ATTENTION_FUNCTIONS", "ALL_MASK_ATTENTION_FUNCTIONS", "AttentionInterface",
             "AttentionMaskInterface")  # fmt: skip


def assigned(node: ast.AST) -> list[str]:
    """Names of attributes that a statement assigns, as setattr does too."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
        return [str(getattr(node.args[1], "value", ""))]
    return [target.attr for target in targets if isinstance(target, ast.Attribute)]


def files_that(does: Any) -> set[str]:
    return {name for name, path in FILES.items() if any(map(does, nodes_of(path)))}


def test_one_file_installs_hooks_and_wrappers() -> None:
    def installs(node: ast.AST) -> bool:
        hooks = isinstance(node, ast.Attribute) and node.attr in HOOKS
        return hooks or "forward" in assigned(node)

    assert files_that(installs) == {"capture/forward_wrappers.py"}


def test_one_file_swaps_attention_functions() -> None:
    def swaps(node: ast.AST) -> bool:
        return getattr(node, "attr", getattr(node, "id", "")) in INTERFACE

    assert files_that(swaps) == {"capture/attention_function_registry.py"}


def test_one_file_chooses_eager_attention_of_a_running_model() -> None:
    """Another forgets the implementation that a checkpoint was saved with, before its model is made."""
    chosen = files_that(lambda node: "_attn_implementation_internal" in assigned(node))
    assert chosen == {
        "capture/attention_function_registry.py",
        "models/loading/model_class_of_config.py",
    }


def test_swapped_functions_are_restored_even_within_one_another() -> None:
    tables = AttentionInterface._global_mapping, AttentionMaskInterface._global_mapping
    before = [dict(table) for table in tables]

    def fail_within() -> None:
        with swap_attention_functions({"eager": min}, {"eager": min}):
            with swap_attention_functions({"eager": max, "sdpa": max}):
                assert tables[0]["eager"] is tables[0]["sdpa"] is max
            assert tables[0]["eager"] is tables[1]["eager"] is min
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_within()
    assert [dict(table) for table in tables] == before


def test_hooks_are_removed_and_called_in_order() -> None:
    layer, seen = nn.Linear(2, 2), []
    own = layer.register_forward_pre_hook(lambda *_: seen.append("own"))
    with hook_forwards(
        [(layer, lambda *_: seen.append("before"))],
        [(layer, lambda *_: seen.append("after"))],
        first=True,
        always=True,
    ):
        with pytest.raises(RuntimeError):
            layer(torch.zeros(3))
        assert seen == ["before", "own", "after"]
    own.remove()
    layer(torch.zeros(2))
    assert len(seen) == 3
    assert not layer._forward_hooks
    assert not layer._forward_pre_hooks
