"""How each layer of a model mixes tokens: by attention or otherwise, and which of it is measured."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

from attncli.analysis.heads.report_rows.head_rows import name_stacks_of_attention_sites
from attncli.capture import AttentionSite
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.other_mixers.token_mixers import (
    TokenMixer,
    format_layer_numbers,
    pluralise_mixer_kind,
)
from attncli.records import JsonObject


@dataclass(frozen=True)
class TokenMixing:
    """One way of mixing tokens, and the layers of one stack that have it."""

    stack: str
    kind: str
    """A measured kind of attention, or the name of another mixer."""
    attention: bool
    layers: tuple[int, ...]


@dataclass(frozen=True)
class LayerCounts:
    """The layers of a whole model, whichever are measured."""

    layers: int
    attending: int
    """Layers whose attention is captured."""
    idle: int
    """Layers that mix no tokens, as far as is seen."""
    mixers: tuple[TokenMixing, ...]

    @classmethod
    def from_layer_stacks(
        cls,
        stacks: tuple[BlockStack, ...],
        sites: Iterable[AttentionSite],
        mixers: Sequence[TokenMixer],
    ) -> "LayerCounts":
        sites = list(sites)
        names = name_stacks_of_attention_sites(sites, stacks)
        calls = [(stack.name, call) for stack in stacks for call in stack.calls]
        other = {(mixer.stack, mixer.layer) for mixer in mixers}
        attends = [any(site.is_inside_block(call.name) for site in sites) for _, call in calls]
        idle = [
            not attending and (stack, call.layer) not in other
            for attending, (stack, call) in zip(attends, calls, strict=True)
        ]
        seen = [(names[site], site.kind, site.layer, True) for site in sites]
        seen += [(mixer.stack, mixer.kind, mixer.layer, False) for mixer in mixers]
        return cls(len(calls), sum(attends), sum(idle), group_layers_by_mixer(seen))

    def describe(self) -> JsonObject:
        """JSON description."""
        mixers = [{**asdict(each), "layers": list(each.layers)} for each in self.mixers]
        return {**asdict(self), "mixers": mixers}

    @property
    def mixers_other_than_attention(self) -> dict[str, list[TokenMixing]]:
        """Token mixers other than attention, by kind."""
        found: dict[str, list[TokenMixing]] = {}
        for each in self.mixers:
            if not each.attention:
                found.setdefault(each.kind, []).append(each)
        return found

    def format_layer_counts(self) -> str:
        """`2 of 8 layers attend; 6 are gated delta nets`; empty where every layer attends and has
        no other mixer."""
        if not self.mixers_other_than_attention and not self.idle:
            return ""
        parts = [f"{self.attending} of {self.layers} layers attend"]
        attending = {
            (each.stack, layer) for each in self.mixers if each.attention for layer in each.layers
        }
        for kind, found in self.mixers_other_than_attention.items():
            places = [(each.stack, layer) for each in found for layer in each.layers]
            alone = [place for place in places if place not in attending]
            if alone:
                parts.append(f"{len(alone)} {format_is_or_are_mixer_kind(kind, len(alone))}")
            if len(places) > len(alone):
                alongside = len(places) - len(alone)
                parts.append(
                    f"{alongside} {format_has_or_have_mixer_kind(kind, alongside)} beside attention"
                )
        if self.idle:
            parts.append(f"{self.idle} {'mixes' if self.idle == 1 else 'mix'} no tokens")
        return "; ".join(parts)

    def describe_unmeasured_mixers(self, looked_at: Collection[str] = ()) -> str:
        """Describe what findings do not cover; `looked_at`: kinds that are measured."""
        parts = [
            f"{pluralise_mixer_kind(kind)} in {format_layer_numbers([layer for each in found for layer in each.layers])}"
            for kind, found in self.mixers_other_than_attention.items()
            if kind not in looked_at
        ]
        return " and ".join(parts)


def group_layers_by_mixer(seen: Iterable[tuple[str, str, int, bool]]) -> tuple[TokenMixing, ...]:
    layers: dict[tuple[str, str, bool], list[int]] = {}
    for stack, kind, layer, attention in seen:
        layers.setdefault((stack, kind, attention), []).append(layer)
    return tuple(
        TokenMixing(stack, kind, attention, tuple(sorted(found)))
        for (stack, kind, attention), found in layers.items()
    )


def format_is_or_are_mixer_kind(kind: str, count: int) -> str:
    return (
        f"is {indefinite_article(kind)} {kind}"
        if count == 1
        else f"are {pluralise_mixer_kind(kind)}"
    )


def format_has_or_have_mixer_kind(kind: str, count: int) -> str:
    return (
        f"has {indefinite_article(kind)} {kind}"
        if count == 1
        else f"have {pluralise_mixer_kind(kind)}"
    )


def indefinite_article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
