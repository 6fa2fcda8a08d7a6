"""How the tensors of a file of maps are called."""

import re

from attncli.capture import AttentionSite
from attncli.capture.strips.attention_sites import SELF

FORMAT = "attn-maps"
NAME = re.compile(
    r"(?:(?P<stack>.+)\.)?layers\.(?P<layer>\d{1,9})\.(?P<kind>(?:self_\w+|cross(?:_\w+)?|difference)_)?attention"
)
PLAIN = "layers"
"""The stack of maps that name none."""


def map_tensor_name(site: AttentionSite, several: bool) -> str:
    """How a map is called; the stack is named where there are several."""
    stack = f"{site.stack}." if several else ""
    kind = "" if site.kind == SELF else f"{site.kind.replace(' ', '_')}_"
    return f"{stack}layers.{site.layer}.{kind}attention"


def visible_tensor_name(name: str) -> str:
    return f"{name.removesuffix('attention')}visible"


def map_sort_key(name: str) -> tuple[str, int, str]:
    """Stacks by name, layers by number."""
    match = NAME.fullmatch(name)
    return (match["stack"] or "", int(match["layer"]), name) if match else ("", -1, name)
