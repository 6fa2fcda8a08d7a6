"""Which attention is which: every module that attends gets a stack, a true layer index, and a kind."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")

CROSS = re.compile(r"cross|encoder_attn|encdec|enc_attn|encoder_decoder", re.IGNORECASE)
"""How transformers' models name attention over another stack's states."""


@dataclass(frozen=True, slots=True)
class Site:
    """One attention of one forward pass."""

    stack: str
    """The module path up to the layers, such as `encoder.layer`."""
    layer: int
    """The true index: a hybrid's attention layers keep the numbers of the layers they are."""
    kind: str
    """self or cross."""
    span: str
    """full, sliding, chunked …: the config's own word where it has one."""
    name: str
    """The module's path."""


class Sites:
    """Names every attention of a forward pass as it happens.

    A module that is called once carries its index in its path. Where a path has several changing numbers (stages of
    blocks) or a module is called again (shared layers), attentions are counted as they come.
    """

    def __init__(self, model: nn.Module) -> None:
        self.names = {id(module): name for name, module in model.named_modules()}
        self.spans = layer_types(model)
        self.families = families(self.names.values())
        self.restart()

    def restart(self) -> None:
        """Counts from 0 again: a new forward pass."""
        self.seen: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def site(self, module: nn.Module) -> Site:
        name = self.names.get(id(module), type(module).__name__)
        family = NUMBER.sub("*", name)
        running, self.seen[family] = self.seen[family], self.seen[family] + 1
        self.calls[name] += 1
        own = self.own_index(name, family)
        layer = running if own is None or self.calls[name] > 1 else own
        span = self.spans[layer] if layer < len(self.spans) else "full"
        kind = "cross" if CROSS.search(name) else "self"
        return Site(family.partition(".*")[0], layer, kind, span.removesuffix("_attention"), name)

    def own_index(self, name: str, family: str) -> int | None:
        """The one number that tells this module from its siblings; None without one, or with several."""
        changing = self.families[family]
        numbers = [int(number) for number in NUMBER.findall(name)]
        return numbers[changing[0]] if len(changing) == 1 else None


def families(names: Iterable[str]) -> dict[str, list[int]]:
    """Per path with its numbers taken out, the places where numbers change from module to module."""
    numbers: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for name in names:
        numbers[NUMBER.sub("*", name)].append(tuple(NUMBER.findall(name)))
    return {
        family: [
            place for place, column in enumerate(zip(*found, strict=True)) if len(set(column)) > 1
        ]
        or list(range(min(1, len(found[0]))))
        for family, found in numbers.items()
    }


def layer_types(model: nn.Module) -> list[str]:
    """The config's words for its layers, if it has them."""
    config = getattr(model, "config", None)
    for held in (config, getattr(config, "text_config", None)):
        types = getattr(held, "layer_types", None)
        if types:
            return [str(kind) for kind in types]
    return []
