"""Model types by name: where their heads' weights are, and what happens between them and the softmax.

Other families are refused by name: unknown positions, norms or scales would give wrong numbers.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

from attncli.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class HeadFamily:
    """Tensor names without their prefix; `{l}` is the layer (ALBERT: its group), `{p}` the one before it."""

    query: str
    output: str
    """Heads back to the hidden size."""
    key: str = ""
    """Empty: `query` holds queries, keys and values at once."""
    value: str = ""
    layout: str = "linear"
    """linear [out, in]; conv1d [in, out], fused in the order q, k, v; blocks [out, in], fused in that order;
    interleaved [head, (q, k, v), in], fused."""
    causal: bool = False
    norm: str = ""
    """The norm whose output the projections read; empty: none."""
    first_norm: str = ""
    """The same for layer 0, where it is another one; `none` where there is none."""
    pre_norm: bool = False
    """Whether that norm is in the branch, so that its gain belongs to the head; else its output is the stream."""
    rms: bool = False
    unit_offset: bool = False
    """The norm multiplies by 1 + its stored gain."""
    rotary: float = 0.0
    """The share of a head's features that rotate by position (unless the config sets another); 0: none does."""
    qk_norm: bool = False
    """Queries and keys are normalised, so that logits are no bilinear form of the input."""
    logits: str = ""
    """What else its logits go through, described; empty: they are scaled products of queries and keys."""
    hidden_size: str = "hidden_size"
    heads: str = "num_attention_heads"
    layers: str = "num_hidden_layers"
    """The config's own names for these three."""


TABLE = tomllib.loads(
    (files("attncli.head_weights") / "model_families.toml").read_text(encoding="utf-8")
)
REASONS: Mapping[str, str] = TABLE["reasons"]
"""Why the heads of some other model types are not read."""


def read_model_family_table() -> dict[str, HeadFamily]:
    """The families of the table, by model type."""
    named: dict[str, HeadFamily] = {}
    for name, entry in TABLE["families"].items():
        like = entry.pop("like", None)
        if "logits" in entry:
            entry["logits"] = TABLE["notes"].get(entry["logits"], entry["logits"])
        named[name] = HeadFamily(**entry) if like is None else replace(named[like], **entry)
    return {kind: named[name] for kind, name in TABLE["types"].items()}


FAMILIES = read_model_family_table()


def explain_unsupported_model_type(config: Mapping[str, object]) -> str:
    """Explain why the weights of its heads are not read; empty where they are."""
    kind = config.get("model_type")
    if kind in FAMILIES:
        return ""
    unknown = "which of its weights make queries, keys and values is not known here"
    return f"model type '{kind}': {REASONS.get(str(kind), unknown)}"


def find_model_family(where: str, config: Mapping[str, object]) -> HeadFamily:
    """Find the family that the config names; refuse an unknown one by name."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise InputError(
            f'{where} names no model_type: add it by hand, as in "model_type": "bert", if you know it.'
        )
    if kind not in FAMILIES:
        why = REASONS.get(kind, f"there are: {', '.join(FAMILIES)}")
        raise UsageError(f"model type '{kind}' ({where}) cannot be used: {why}.")
    return FAMILIES[kind]
