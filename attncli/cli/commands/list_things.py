"""`attn list`"""

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Annotated

from attncli.cli.typer_options import grouped
from attncli.errors import unknown_name
from attncli.networks.variants import SETS, VARIANTS
from attncli.options.declared import Argument
from attncli.options.shared import completion
from attncli.registry import Registry

REGISTRIES: Mapping[str, Registry] = {
    "metrics": Registry("metric", "attncli.metrics"),
    "attention-metrics": Registry("attention metric", "attncli.metrics.attention"),
    "activation-metrics": Registry("activation metric", "attncli.metrics.activations"),
    "weight-metrics": Registry("weight metric", "attncli.metrics.weights"),
    "maps": Registry("map", "attncli.maps"),
    "patterns": Registry("pattern", "attncli.patterns"),
    "methods": Registry("method", "attncli.fits"),
    "tasks": Registry("task", "attncli.tasks.labelling"),
    "formats": Registry("format", "attncli.render"),
    "engines": Registry("engine", "attncli.processes.engines"),
}


ARCHITECTURES = "architectures"
"""Hundreds of lines: shown only when asked for."""
SCHEMA = "schema"
"""A document of its own: shown only when asked for."""

EXAMPLES = """
attn list metrics
attn list variants
attn list architectures
attn list schema > report.schema.json               what the JSON of every command looks like
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


def architectures() -> dict[str, str]:
    """Per model type of transformers: how its attention is seen, and whether its parts can be switched off."""
    from importlib.resources import files

    lines = (files("attncli.models.random") / "architectures.tsv").read_text().splitlines()
    header, *rows = (line.split("\t") for line in lines)
    return {row[0]: in_words(dict(zip_longest(header, row, fillvalue=""))) for row in rows}


def in_words(tried: Mapping[str, str]) -> str:
    """One line of the table that `tests/coverage/every_architecture.py` makes."""
    if tried["runs"].startswith("no: "):
        return f"not tried: {tried['runs'].removeprefix('no: ')}"
    if not tried["difference"]:
        return tried["capture"].replace("refused", "attention refused")
    seen = f"attention by {tried['capture'].replace('watched', 'watching')}"
    if tried["mixers"]:
        seen += f", beside {tried['mixers']}, which is not looked at"
    if tried["ablation"] == "understood":
        return f"{seen}; ablation understood"
    return f"{seen}; ablation {tried['ablation']}"


def schema() -> str:
    """The JSON Schema that every report follows."""
    from importlib.resources import files

    return (files("attncli.reports") / "report.schema.json").read_text(encoding="utf-8")


@grouped
def list_things(
    *,
    what: Annotated[
        str | None,
        Argument(
            metavar="WHAT",
            complete=completion(lambda: [*REGISTRIES, "variants", ARCHITECTURES, SCHEMA]),
            help="One of metrics, attention-metrics, activation-metrics, weight-metrics, maps, patterns, methods, tasks, formats, engines, variants, architectures, schema "
            "(a JSON Schema of the report); nothing = all but the last two.",
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
    if what is None:
        chosen = tables
    else:
        tables[ARCHITECTURES] = architectures
        if what == SCHEMA:
            to_stdout(schema())
            return 0
        if what not in tables:
            raise unknown_name("list", what, [*tables, SCHEMA])
        chosen = {what: tables[what]}
    to_stdout("\n".join(listing(name, table()) for name, table in chosen.items()))
    return 0


def listing(title: str, entries: Mapping[str, str]) -> str:
    width = max(map(len, entries))
    lines = (f"  {name:<{width}}  {summary}\n" for name, summary in entries.items())
    return f"{title}\n{''.join(lines)}"
