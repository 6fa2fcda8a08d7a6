"""Types of what a model's own code is called with: nobody knows more of it than this."""

from collections.abc import Callable, Mapping
from typing import Any

Inputs = Mapping[str, Any]
"""Arguments of a model's forward by name: ids, masks, pixels and whatever else it takes."""

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
"""Arguments of a module's forward or a function of torch: tensors, numbers, caches, nested in any way."""

Function = Callable[..., Any]
"""A module's forward, a function of torch, or what is called in place of one."""

Output = Any
"""What a module's forward or a function of torch returns: a tensor, a tuple of them, a model's own class, nested too."""
