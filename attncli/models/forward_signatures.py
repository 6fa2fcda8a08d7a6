"""Argument names of a model's forward."""

import inspect
from collections.abc import Callable, Mapping

from torch import nn

ANYTHING = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def find_forward_signature(module: nn.Module) -> inspect.Signature:
    """The signature of a model's forward; of the next one that names arguments, if it passes on `*args, **kwargs`."""
    own = inspect.signature(module.forward)
    if select_named_parameters(own):
        return own
    return next(
        filter(
            select_named_parameters,
            map(drop_self_from_signature, list_inherited_forwards(type(module))),
        ),
        own,
    )


def select_named_parameters(signature: inspect.Signature) -> Mapping[str, inspect.Parameter]:
    """Parameters with names."""
    return {name: each for name, each in signature.parameters.items() if each.kind not in ANYTHING}


def list_inherited_forwards(kind: type) -> list[Callable[..., object]]:
    """The forwards of a class and its bases; torch's Module defines none."""
    return [
        each.__dict__["forward"]
        for each in kind.__mro__
        if "forward" in each.__dict__ and each is not nn.Module
    ]


def drop_self_from_signature(function: Callable[..., object]) -> inspect.Signature:
    """A signature without `self`."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])
