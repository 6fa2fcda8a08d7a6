"""Names of the tensors in a file of maps."""

import re

from attncli.capture import AttentionSite
from attncli.capture.softmax_attention.attention_site_names import SELF

FORMAT = "attn-maps"
NAME = re.compile(
    r"(?:(?P<stack>.+)\.)?layers\.(?P<layer>\d{1,9})\.(?P<kind>(?:self_\w+|cross(?:_\w+)?|difference)_)?attention"
)
PLAIN = "layers"
"""The stack of maps whose names have none."""


def name_attention_map_tensor(site: AttentionSite, several: bool) -> str:
    """The name of a map; it includes the stack where there are several."""
    stack = f"{site.stack}." if several else ""
    kind = "" if site.kind == SELF else f"{site.kind.replace(' ', '_')}_"
    return f"{stack}layers.{site.layer}.{kind}attention"


def name_visible_keys_tensor(name: str) -> str:
    return f"{name.removesuffix('attention')}visible"


def make_map_name_sort_key(name: str) -> tuple[str, int, str]:
    """Sort key: stacks by name, layers by number."""
    match = NAME.fullmatch(name)
    return (match["stack"] or "", int(match["layer"]), name) if match else ("", -1, name)
