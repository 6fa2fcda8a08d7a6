"""Wrap the forward of chosen modules temporarily, or hook it: no other file does.

A wrapper may run the forward with other arguments, several times or not at all, and leaves what it has entered even where
the forward raises. A hook only looks at arguments and outputs, or changes them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle

from attncli.forward_argument_types import Args, Function, Kwargs, Output

Around = Callable[[Function, nn.Module, Args, Kwargs], Any]
"""Called as around(forward, module, args, kwargs) in place of forward(*args, **kwargs)."""

Hooks = Iterable[tuple[nn.Module, Function]]
"""Modules, and what torch calls as hook(module, args) before their forward or as hook(module, args, output) after it."""


def install_forward_hooks(
    before: Hooks = (),
    after: Hooks = (),
    *,
    with_kwargs: bool = False,
    first: bool = False,
    always: bool = False,
) -> list[RemovableHandle]:
    """Have the functions called before and after forwards of their modules, until their handles are removed.

    Before: `with_kwargs`, as hook(module, args, kwargs); `first`, ahead of hooks that are there already. After: `always`,
    even where the forward raises.
    """
    return [
        *(
            m.register_forward_pre_hook(f, with_kwargs=with_kwargs, prepend=first)
            for m, f in before
        ),
        *(m.register_forward_hook(f, always_call=always) for m, f in after),
    ]


@contextmanager
def hook_forwards(before: Hooks = (), after: Hooks = (), **how: bool) -> Iterator[None]:
    """The same for a while."""
    handles = install_forward_hooks(before, after, **how)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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


def wrap_forward(module: nn.Module, around: Around) -> Function:
    """Replace the module's forward by one that calls `around`."""
    forward = module.forward

    @wraps(forward)
    def call_wrapped_forward(*args: Any, **kwargs: Any) -> Output:
        return around(forward, module, args, kwargs)

    return call_wrapped_forward
