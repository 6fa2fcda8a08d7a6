"""Wrap the forward of chosen modules temporarily, and restore it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch import nn

Around = Callable[..., Any]
"""Called as around(forward, module, args, kwargs) in place of forward(*args, **kwargs)."""


@contextmanager
def wrap_forwards(modules: Iterable[nn.Module], around: Around) -> Iterator[None]:
    """Within, every call of these modules goes through `around`; afterwards, error or not, they are restored.

    The attribute `forward` of the instance is replaced rather than a hook registered: a hook after the forward is
    not called when it raises, and what `around` has entered must be left then.
    """
    changed = list({id(module): module for module in modules}.values())
    own = [module.__dict__.get("forward") for module in changed]
    for module in changed:
        module.forward = wrap_forward(module, around)
    try:
        yield
    finally:
        for module, forward in zip(changed, own, strict=True):
            del module.forward
            if forward is not None:
                module.forward = forward


def wrap_forward(module: nn.Module, around: Around) -> Callable[..., Any]:
    """Replace the module's forward by one that calls `around`."""
    forward = module.forward

    @wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        return around(forward, module, args, kwargs)

    return call
