"""Which towers and blocks of a model did not run in a forward: its vision tower on a text alone."""

from collections.abc import Iterator

from torch import nn

from attncli.capture.model_structure.probe_forward import LISTS


def iter_idle_towers(module: nn.Module, ran: set[nn.Module], path: str = "") -> Iterator[str]:
    """Paths of the outermost parts with blocks of which no module ran, and the blocks that a list of blocks left out.

    `ran`: the modules that did.
    """
    skipped = []
    for name, child in module.named_children():
        here = f"{path}.{name}".lstrip(".")
        if not ran.isdisjoint(child.modules()):
            yield from iter_idle_towers(child, ran, here)
        elif isinstance(module, LISTS) and is_block(child):
            skipped.append(name)
        elif has_blocks(child):
            yield here
    if skipped:  # cross-attention to pictures in a model that was given none
        yield f"{path} {', '.join(skipped)}"


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
