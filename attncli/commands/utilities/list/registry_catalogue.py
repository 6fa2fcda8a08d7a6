"""Entries of `attn list`: registries (metrics, patterns, maps, …), variants, and the model types
that were tried."""

import csv
import inspect
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pkgutil import resolve_name

from attncli.networks.ablation_variants import SETS, VARIANTS
from attncli.registry import Registry

Entry = Mapping[str, str]
"""One entry: `list`, `name`, `summary`, and further keys that depend on the list."""

REGISTRIES: Mapping[str, str] = {
    "metrics": "attncli.metrics:METRICS",
    "block-metrics": "attncli.metrics.steps:STEPS",
    "attention-metrics": "attncli.metrics.attention:ATTENTION",
    "activation-metrics": "attncli.metrics.activations:ACTIVATIONS",
    "weight-metrics": "attncli.metrics.weights:WEIGHTS",
    "maps": "attncli.maps:MAPS",
    "patterns": "attncli.patterns:PATTERNS",
    "methods": "attncli.fits:FITS",
    "tasks": "attncli.commands.reproduce.tasks:TASKS",
    "formats": "attncli.render:FORMATS",
    "engines": "attncli.processes.engines:ENGINES",
}
"""Where the registries are, which are imported when they are listed."""
VARIANT_LIST = "variants"
ARCHITECTURES = "architectures"
"""The list of model types: hundreds of lines, so it is printed on request only."""
SMALL = (*REGISTRIES, VARIANT_LIST)
LISTS = (*SMALL, ARCHITECTURES)


def list_catalogue_entries(name: str) -> list[Entry]:
    """Return all entries of one list."""
    if name == VARIANT_LIST:
        found: Iterable[Entry] = list_network_variant_entries()
    elif name == ARCHITECTURES:
        found = list_architecture_entries()
    else:
        found = list_registry_entries(resolve_name(REGISTRIES[name]))
    return [{"list": name, **entry} for entry in found]


def list_registry_entries(registry: Registry[Callable[..., object]]) -> Iterable[Entry]:
    for name in registry.names():
        _, _, detail = (inspect.getdoc(registry[name]) or "").partition("\n")
        yield {"name": name, "summary": registry.summary(name), "detail": " ".join(detail.split())}


def list_network_variant_entries() -> Iterable[Entry]:
    """Return an entry for each variant and each set of variants, with the parts that it switches
    on."""
    parts = ("skip", "mlp", "mlp_skip")
    for name, switches in VARIANTS.items():
        on = [part.replace("_", " ") for part in parts if getattr(switches, part)]
        yield {"name": name, "summary": ", ".join(["attention", *on])}
    for name, members in SETS.items():
        yield {"name": name, "summary": "the set " + ", ".join(members)}


def list_architecture_entries() -> Iterable[Entry]:
    """Per model type of transformers: how its attention is seen, and whether its parts can be switched off; by kind."""
    from importlib.resources import files

    text = (files("attncli.models.random") / "architectures.tsv").read_text()
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    every = [{key: value or "" for key, value in row.items()} for row in rows]
    for tried in sorted(every, key=lambda tried: SHOWN.index(classify_architecture_support(tried))):
        name, kind = tried.pop("type"), classify_architecture_support(tried)
        yield {"name": name, "summary": describe_architecture_support(tried), "kind": kind, **tried}


KINDS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "not tried": lambda tried: tried["runs"].startswith("no: "),
    "softmax attention": lambda tried: bool(tried["difference"]) and not tried["mixers"],
    "softmax attention and linear layers": lambda tried: (
        bool(tried["difference"] and tried["linear"]) and not list_token_mixers_without_maps(tried)
    ),
    "softmax attention and mixers that are not looked at": lambda tried: bool(tried["difference"]),
    "linear layers": lambda tried: bool(tried["linear"]),
    "mixers that are not looked at": lambda tried: bool(tried["mixers"]),
    "no attention": lambda tried: tried["capture"] == "no attention",
    "attention that is refused": lambda tried: True,
}
"""Kinds of model types by what mixes their tokens; the first predicate that is true gives the kind.
"""


SHOWN = (*list(KINDS)[1:], "not tried")


def classify_architecture_support(tried: Mapping[str, str]) -> str:
    return next(kind for kind, holds in KINDS.items() if holds(tried))


def list_token_mixers_without_maps(tried: Mapping[str, str]) -> list[str]:
    """List the token mixers of a model type, other than attention, that have no exact maps."""
    linear = tried["linear"].split(", ")
    return [kind for kind in tried["mixers"].split(", ") if kind and kind not in linear]


def describe_architecture_support(tried: Mapping[str, str]) -> str:
    """One line of the table that `tests/coverage/every_architecture.py` makes."""
    if tried["runs"].startswith("no: "):
        return f"not tried: {tried['runs'].removeprefix('no: ')}"
    attention, linear = tried["difference"], tried["linear"]
    maps, without = ["attention"] * bool(attention), list_token_mixers_without_maps(tried)
    maps += linear.split(", ") if linear else []
    parts = [] if attention else [tried["capture"].replace("refused", "attention refused")]
    if maps:
        parts.append(f"maps of {' and '.join(maps)}")
    if without:
        parts.append(f"no maps of {' and '.join(without)}")
    if tried["ablation"] == "understood" and (attention or tried["capture"] == "no attention"):
        parts.append("ablation works")
    elif attention:
        parts.append(f"ablation {tried['ablation']}")
    return "; ".join(parts)


def format_entries_as_text(entries: Sequence[Entry]) -> str:
    """Lists below their names, those that have kinds by kind."""
    lists: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        lists.setdefault((entry["list"], entry.get("kind", "")), []).append(entry)
    return "\n".join(
        format_entries_under_title(f"{title}: {kind} ({len(members)})" if kind else title, members)
        for (title, kind), members in lists.items()
    )


def format_entries_under_title(title: str, members: Sequence[Entry]) -> str:
    width = max(len(entry["name"]) for entry in members)
    lines = (f"  {entry['name']:<{width}}  {entry['summary']}\n" for entry in members)
    return f"{title}\n{''.join(lines)}"


def format_entries_as_csv(entries: Sequence[Entry]) -> str:
    """Format the entries as CSV, with a column for every key that occurs."""
    columns = list(dict.fromkeys(key for entry in entries for key in entry))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue()


def format_entries_as_json(entries: Sequence[Entry]) -> str:
    """Format the entries as a JSON list of objects; unknown values are null."""
    plain = [
        {key: parse_number_in_entry(key, value) for key, value in entry.items()}
        for entry in entries
    ]
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def parse_number_in_entry(key: str, value: str) -> str | float | None:
    if not value:
        return None
    return NUMBERS[key](value) if key in NUMBERS else value


MANNERS: Mapping[str, Callable[[Sequence[Entry]], str]] = {
    "table": format_entries_as_text,
    "csv": format_entries_as_csv,
    "json": format_entries_as_json,
}
NUMBERS: Mapping[str, Callable[[str], float]] = {"parameters": int, "difference": float}
"""Of the model types."""
ENDINGS = {".csv": "csv", ".json": "json", ".txt": "table"}
