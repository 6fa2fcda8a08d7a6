"""The linear layers of a model, and the heads of them that are measured."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attncli.capture.softmax_attention.attention_site_names import AttentionSite

if TYPE_CHECKING:
    from attncli.capture.linear_attention.find_scans_in_forward_code import MixerCodeStep
    from attncli.capture.linear_attention.linearity_tests import ValueArgument
    from attncli.capture.linear_attention.shortcuts_for_long_linear_maps import FasterMapMethods

NO_HEAD = -1
"""A head number that is kept where all are, and never where heads are named."""


LOOKED_AT = 16
"""How many channels to measure, evenly spaced, in a layer with more channels that have maps of their own."""


@dataclass(frozen=True)
class LinearAttentionLayer:
    """One call that has maps."""

    site: AttentionSite
    place: tuple[str, int]
    values: "ValueArgument"
    heads: int
    shortcuts: "FasterMapMethods" = field(repr=False, compare=False)
    step: "MixerCodeStep | None" = None
    """The step in the mixer's own forward that has the map; None where it is a function, a submodule or a method."""

    @property
    def has_single_channel_heads(self) -> bool:
        """Whether its heads are single channels."""
        return self.values.shared_axis is None

    @property
    def mixer_function_name(self) -> str:
        return self.place[0]

    def choose_measured_heads(self, keeps: Callable[[int, int], bool]) -> list[int]:
        """The heads that are measured."""
        requested = [head for head in range(self.heads) if keeps(self.site.layer, head)]
        named = not keeps(self.site.layer, NO_HEAD)
        if named or not self.has_single_channel_heads or self.heads <= LOOKED_AT:
            return requested
        return [place * self.heads // LOOKED_AT for place in range(LOOKED_AT)]


@dataclass(frozen=True)
class LinearAttentionHeads:
    """The heads that are measured."""

    layers: tuple[LinearAttentionLayer, ...] = ()
    heads: Mapping[AttentionSite, Sequence[int]] = field(default_factory=dict)


NO_LINEAR = LinearAttentionHeads()


@dataclass(frozen=True)
class LinearAttentionLayers:
    """The linear layers of one model."""

    layers: tuple[LinearAttentionLayer, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Kinds of mixers without a known map, and why."""
    kinds: frozenset[str] = frozenset()
    """Kinds of mixers that have maps."""

    def select_measured_heads(
        self, layers: Collection[int] | None, keeps: Callable[[int, int], bool]
    ) -> LinearAttentionHeads:
        """The heads that are measured of the requested layers; None: of all."""
        requested = [each for each in self.layers if layers is None or each.site.layer in layers]
        heads = {layer.site: layer.choose_measured_heads(keeps) for layer in requested}
        with_heads = tuple(layer for layer in requested if heads[layer.site])
        return LinearAttentionHeads(
            with_heads, {layer.site: heads[layer.site] for layer in with_heads}
        )
