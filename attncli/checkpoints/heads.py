"""One head of a trained model: W_Q, W_K, biases, and what its logits go through before the softmax."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncli.checkpoints.configs import Config
from attncli.checkpoints.families import Family
from attncli.checkpoints.tensors import Tensors
from attncli.errors import InputError, UsageError
from attncli.maths.rotary import Rotary

Array = NDArray[np.float64]

SPEC = re.compile(r"(?P<folder>.+):(?P<layer>\d+)\.(?P<head>\d+)")
PARTS = {"query": 0, "key": 1}
"""Their order in a fused projection; the values come third."""


@dataclass(frozen=True, slots=True)
class Norm:
    """The norm whose output the head reads: gain · standardised token + bias."""

    gain: Array
    bias: Array
    centred: bool
    """LayerNorm; False: RMSNorm, which leaves the mean."""


@dataclass(frozen=True, slots=True)
class Head:
    """softmax(scale · (x w_q + b_q) (x w_k + b_k)^T), turned by position where the model is rotary."""

    w_q: Array
    """[hidden, d], exactly as stored."""
    w_k: Array
    b_q: Array
    b_k: Array
    scale: float
    causal: bool
    rotary: Rotary | None
    norm: Norm | None
    """None where the head's input comes from no norm, or from one without a gain in the file."""
    window: int | None
    """Keys that a query sees where the layer has a sliding window."""
    described: Mapping[str, str | int]
    """Folder, family, layer, head, dtype and hash of the weights, for the report."""

    @property
    def d(self) -> int:
        """Query and key width."""
        return int(self.w_q.shape[1])


def read_head(text: str) -> Head:
    """The head that `FOLDER:LAYER.HEAD` names."""
    spec = SPEC.fullmatch(text)
    if spec is None:
        raise UsageError(f"--module '{text}': write FOLDER:LAYER.HEAD, as in ./model:0.3.")
    folder, layer, head = Path(spec["folder"]), int(spec["layer"]), int(spec["head"])
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: --module takes a saved model on this machine.")
    config = Config.read(folder)
    if layer >= config.layers or head >= config.heads:
        raise UsageError(
            f"--module '{text}': the model has layers 0 … {config.layers - 1} and heads 0 … {config.heads - 1}."
        )
    return assembled(Tensors(folder), config, layer, head)


def assembled(tensors: Tensors, config: Config, layer: int, head: int) -> Head:
    """All parts of the head, read and described."""
    family, place = config.family, config.place(layer)
    refuse_query_norm(tensors, place)
    key_head = head * config.key_heads // config.heads
    w_q, b_q = projection(tensors, config, place, "query", head)
    w_k, b_k = projection(tensors, config, place, "key", key_head)
    digest = hashlib.sha256(b"".join(part.tobytes() for part in (w_q, w_k, b_q, b_k)))
    return Head(
        w_q,
        w_k,
        b_q,
        b_k,
        scale=config.logit_scale(layer),
        causal=family.causal,
        rotary=config.rotary(),
        norm=norm_before(tensors, config, layer),
        window=config.window(layer),
        described={
            "folder": tensors.folder.name,
            "family": config.kind,
            "layer": layer,
            "head": head,
            "key_head": key_head,
            "dtype": tensors.dtype(weight(tensors, family.query, place)),
            "weights_sha256": digest.hexdigest(),
        },
    )


def weight(tensors: Tensors, template: str, place: int) -> str:
    """The full name of a projection's weight."""
    wanted = f"{template.format(l=place)}.weight"
    name = tensors.name(wanted)
    if name is None:
        raise InputError(f"{tensors.folder} has no tensor {wanted}: its files and config disagree.")
    return name


def refuse_query_norm(tensors: Tensors, place: int) -> None:
    """A norm on queries or keys may come with any family's later versions."""
    norms = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_layernorm", "key_layernorm")
    for name in tensors.places:
        if f".{place}." in name and any(f".{norm}." in name for norm in norms):
            raise UsageError(
                f"{tensors.folder} normalises its queries and keys ({name}), which no linear inverse undoes: "
                "choose a model without QK-norm."
            )


def projection(
    tensors: Tensors, config: Config, place: int, part: str, head: int
) -> tuple[Array, Array]:
    """Weights [hidden, d] and biases [d] of one head's queries or keys."""
    family, d = config.family, config.key_width
    heads = config.heads if part == "query" else config.key_heads
    template = family.query if part == "query" or not family.key else family.key
    name = weight(tensors, template, place)
    outputs = heads * d * (1 if family.key else 3)
    expected = (config.hidden, outputs) if family.layout == "conv1d" else (outputs, config.hidden)
    if tensors.shape(name) != expected:
        raise InputError(
            f"{tensors.folder}: {name} has shape {tensors.shape(name)}, the config says {expected}."
        )
    rows = slice_of(family, part, head, heads, d)
    bias = f"{name.removesuffix('.weight')}.bias"
    b = tensors.rows(bias, rows) if bias in tensors.places else np.zeros(d)
    if family.layout == "conv1d":
        return np.ascontiguousarray(tensors.columns(name, rows)), b
    return np.ascontiguousarray(tensors.rows(name, rows).T), b


def slice_of(family: Family, part: str, head: int, heads: int, d: int) -> slice:
    """Which outputs of the projection are the head's."""
    first = head * d
    if family.layout == "conv1d":
        first += PARTS[part] * heads * d
    if family.layout == "interleaved":
        first = (3 * head + PARTS[part]) * d
    return slice(first, first + d)


def norm_before(tensors: Tensors, config: Config, layer: int) -> Norm | None:
    """The norm that feeds this layer's projections."""
    family = config.family
    template = family.first_norm if layer == 0 and family.first_norm else family.norm
    before = config.place(layer - 1) if layer else 0
    name = tensors.name(f"{template.format(l=config.place(layer), p=before)}.weight")
    if name is None:
        return None
    gain = tensors.rows(name, slice(None))
    bias = f"{name.removesuffix('.weight')}.bias"
    b = tensors.rows(bias, slice(None)) if bias in tensors.places else np.zeros(len(gain))
    return Norm(gain, b, centred=not family.rms)
