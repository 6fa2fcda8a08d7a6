"""Find a module by the end of its path, as files name its tensors."""

from torch import nn

from attncli.errors import InputError


def find_module_by_path_suffix(model: nn.Module, name: str) -> nn.Module:
    """Find the one module called `name`, possibly after a prefix such as `bert.`; none and several are refused."""
    found: list[nn.Module] = [
        module
        for path, module in model.named_modules()
        if path == name or path.endswith(f".{name}")
    ]
    if len(found) != 1:
        raise InputError(f"the model has {len(found)} modules called {name}, where one is read.")
    return found[0]
