"""`attn list`"""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from attncli.cli.options import completion
from attncli.errors import unknown_name
from attncli.networks.variants import SETS, VARIANTS
from attncli.registry import Registry

REGISTRIES: Mapping[str, Registry] = {
    "metrics": Registry("metric", "attncli.metrics"),
    "maps": Registry("map", "attncli.maps"),
    "patterns": Registry("pattern", "attncli.patterns"),
    "methods": Registry("method", "attncli.fits"),
    "formats": Registry("format", "attncli.render"),
}


EXAMPLES = """
attn list metrics
attn list variants
"""


def registered(registry: Registry) -> dict[str, str]:
    return {name: registry.summary(name) for name in registry.names()}


def variants() -> dict[str, str]:
    """What each variant switches on, and the sets."""
    parts = ("skip", "mlp", "mlp_skip")
    described = {
        name: "attention"
        + "".join(f", {part.replace('_', ' ')}" for part in parts if getattr(s, part))
        for name, s in VARIANTS.items()
    }
    return described | {name: "the set " + ", ".join(members) for name, members in SETS.items()}


def list_things(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            show_default=False,
            autocompletion=completion(lambda: [*REGISTRIES, "variants"]),
            help="One of metrics, maps, patterns, methods, formats, variants; nothing = all.",
        ),
    ] = None,
) -> int:
    """What there is, one line each, from the code's own docstrings."""
    from attncli.cli.writer import to_stdout

    tables: dict[str, Callable[[], dict[str, str]]] = {
        name: lambda registry=registry: registered(registry)  # type: ignore[misc]
        for name, registry in REGISTRIES.items()
    }
    tables["variants"] = variants
    if what is not None and what not in tables:
        raise unknown_name("list", what, tables)
    chosen = tables if what is None else {what: tables[what]}
    to_stdout("\n".join(listing(name, table()) for name, table in chosen.items()))
    return 0


def listing(title: str, entries: Mapping[str, str]) -> str:
    width = max(map(len, entries))
    lines = (f"  {name:<{width}}  {summary}\n" for name, summary in entries.items())
    return f"{title}\n{''.join(lines)}"
