"""Which towers of a model did not run in a forward: its vision tower on a text alone."""

from collections.abc import Collection, Iterator

from torch import nn

from attncli.capture.model_structure.probe_forward import LISTS


def find_idle_towers(model: nn.Module, ran: Collection[nn.Module]) -> tuple[str, ...]:
    """Paths of the outermost parts with blocks of which no module ran; `ran`: the modules that did."""
    return tuple(iter_idle_towers(model, set(ran), ""))


def iter_idle_towers(module: nn.Module, ran: set[nn.Module], path: str) -> Iterator[str]:
    for name, child in module.named_children():
        here = f"{path}.{name}".lstrip(".")
        if not ran.isdisjoint(child.modules()):
            yield from iter_idle_towers(child, ran, here)
        elif has_blocks(child):
            yield here


def has_blocks(module: nn.Module) -> bool:
    """Whether it holds a list of blocks: of modules whose parts have parts. An expert or a head has layers of torch alone."""
    return any(
        is_block(element)
        for part in module.modules()
        if isinstance(part, LISTS)
        for element in part.children()
    )


def is_block(module: nn.Module) -> bool:
    return any(
        not isinstance(part, LISTS) and any(True for _ in part.children())
        for part in module.children()
    )
