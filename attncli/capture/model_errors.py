"""Translate what a model's code raises into one sentence about its input; our own errors pass unchanged."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attncli.capture.reruns.seed_and_precision import preserve_float64_precision
from attncli.errors import AttnError, InputError, is_memory_error, shorten_error_text
from attncli.forward_argument_types import Inputs, Output

FAILURES = (AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""Exceptions that a model's code may raise on a tensor subclass."""


def run_model_or_refuse_input(
    model: nn.Module,
    inputs: Inputs,
    wrong: str = "with the sizes of its config",
    advice: str = ": check its config.json",
) -> Output:
    """Run the model unchanged; if its own code fails, refuse config and weights, or what `wrong` names."""
    try:
        return model(**inputs)
    except AttnError:
        raise
    except Exception as error:
        if is_memory_error(error):
            raise
        raise InputError(
            f"{type(model).__name__} does not run {wrong} ({type(error).__name__}: {shorten_error_text(error)}){advice}."
        ) from error


@contextmanager
def translate_model_errors(
    model: nn.Module, inputs_by_stack: Mapping[str, Mapping[str, Any]]
) -> Iterator[None]:
    """Within, translate errors of a model that runs on these inputs (by name) under capture, truncation or ablation.

    After an error the model runs once more unchanged; if that fails too, the error is the model's own about its input.
    """
    try:
        yield
    except (AttnError, MemoryError):
        raise
    except Exception as error:
        if is_memory_error(error):
            raise
        for name, inputs in inputs_by_stack.items():
            require_model_runs_on_input(model, name, inputs)
        raise


def require_model_runs_on_input(model: nn.Module, name: str, inputs: Inputs) -> None:
    with torch.no_grad(), preserve_float64_precision(model):
        run_model_or_refuse_input(
            model, inputs, f"on {name}", ": give it another text, other ids or another length"
        )
