"""Gain of hyper-connections: several residual streams that layers mix, over all layers together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.other_mixers.hyper_connections import StreamMixing
from attncli.maths.matrices.stream_mixing_matrix_gain import (
    StreamGain,
    compute_stream_mixing_gains,
)
from attncli.maths.number_format import format_number
from attncli.records import Definition, Finding, Row, Scalar

FORWARD, BACKWARD = "stream_gain_forward", "stream_gain_backward"
DEFINITIONS = {
    FORWARD: Definition(
        "1",
        "Largest |row sum|, over all tokens and texts, of the product of the matrices that mix a token's residual streams, from "
        "the first layer through this one: 1 where all are doubly stochastic (mHC's forward Amax gain).",
    ),
    BACKWARD: Definition(
        "1",
        "Largest |column sum|, over all tokens and texts, of the product of the matrices that mix a token's residual streams, "
        "from the first layer through this one: 1 where all are doubly stochastic (mHC's backward Amax gain).",
    ),
}


@dataclass(frozen=True)
class StreamGains:
    """Gains of one model, on all texts."""

    streams: int
    mixings: int
    stack: str
    of_layers: Mapping[int, StreamGain]
    """After the last mixing of each layer."""
    unread: str = ""
    """The first module whose matrix was not captured; then the gain is unknown."""

    @property
    def gain_metric_definitions(self) -> dict[str, Definition]:
        return DEFINITIONS if self.of_layers else {}

    def build_gain_rows(self, texts: int) -> Iterator[Row]:
        keys: dict[str, Scalar] = {"stack": self.stack}
        for layer, gain in self.of_layers.items():
            for name, value in zip((FORWARD, BACKWARD), gain, strict=True):
                yield Row(name, value, "1", layer=layer, n=texts, keys=keys)

    def build_stream_gain_finding(self) -> Finding:
        if self.unread:
            return Finding(
                "streams",
                f"{self.unread} mixes streams of each token by a matrix that was not seen",
            )
        last = self.of_layers[max(self.of_layers)]
        forward, backward = map(max, zip(*self.of_layers.values(), strict=True))
        return Finding(
            "streams",
            f"{self.mixings} times the {self.streams} streams of a token are mixed: the gain of all together, the largest "
            f"|row sum| of the product, is {format_number(last.forward)} and by columns {format_number(last.backward)}; on the way at most "
            f"{format_number(forward)} and {format_number(backward)} (1: doubly stochastic)",
        )


def compute_stream_gains(
    mixings: Sequence[Sequence[StreamMixing]], stacks: Sequence[BlockStack]
) -> StreamGains | None:
    """Compute the gains. `mixings`: mixings of each text; None where no streams are mixed."""
    if not any(mixings):
        return None
    first = mixings[0]
    unread = next((each.path for text in mixings for each in text if each.matrix is None), "")
    if unread:
        return StreamGains(0, len(first), "", {}, unread)
    stack, layers = find_layers_of_mixers([each.path for each in first], stacks)
    of_layers: dict[int, StreamGain] = {}
    for text in mixings:
        matrices = [each.matrix.numpy() for each in text if each.matrix is not None]
        own = dict(zip(layers, compute_stream_mixing_gains(matrices), strict=True))
        of_layers = {
            layer: StreamGain(*map(max, zip(gain, of_layers.get(layer, gain), strict=True)))
            for layer, gain in own.items()
        }
    return StreamGains(matrices[0].shape[-1], len(first), stack, of_layers)


def find_layers_of_mixers(
    paths: Sequence[str], stacks: Sequence[BlockStack]
) -> tuple[str, list[int]]:
    """The stack of the modules, and the layer of each; those outside of all blocks are counted."""
    for stack in stacks:
        of = {
            path: call.layer
            for path in paths
            for call in stack.calls
            if path == call.name or path.startswith(f"{call.name}.")
        }
        if len(of) == len(set(paths)):
            return stack.name, [of[path] for path in paths]
    return "", list(range(len(paths)))
