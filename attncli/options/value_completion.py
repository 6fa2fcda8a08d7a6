"""Shell completion of option values, without imports of what they name."""

import re
from collections.abc import Callable, Iterable

from attncli.declare.option_declarations import Complete
from attncli.registry import list_entry_names

CHOICE = re.compile(r"([a-z][a-z0-9_-]*)(?:[:\[].*)?")
"""One of `cpu|cuda[:N]|mps`, and the part of it that can be offered."""
RANDOM = "random:"


def make_name_completer(names: Callable[[], Iterable[str]]) -> Complete:
    """Names, one or several with commas between them."""

    def complete_name_after_last_comma(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(last)]

    return complete_name_after_last_comma


def make_registry_name_completer(package: str) -> Complete:
    """Names of a registry's entries."""
    return make_name_completer(lambda: list_entry_names(package))


def make_metavar_choice_completer(metavar: str | None) -> Complete | None:
    """Complete the values in a metavar such as `float64|float32`."""
    found = [CHOICE.fullmatch(part) for part in re.split("[|,]", metavar or "")]
    return (
        make_name_completer(lambda: [match[1] for match in found if match]) if all(found) else None
    )


def complete_random_model_name(incomplete: str) -> list[str]:
    """Complete model types with random weights; the shell completes folders, and the hub is not
    queried."""
    if not incomplete.startswith(RANDOM.removesuffix(":")):
        return []
    return [name for name in map(RANDOM.__add__, list_model_types()) if name.startswith(incomplete)]


def list_model_types() -> list[str]:
    from importlib.resources import files

    lines = (files("attncli.models.random") / "architectures.tsv").read_text().splitlines()
    return [line.partition("\t")[0] for line in lines[1:]]


def list_head_metrics() -> list[str]:
    """Metrics of maps, states and weights."""
    packages = (
        "attncli.metrics.attention",
        "attncli.metrics.activations",
        "attncli.metrics",
        "attncli.metrics.weights",
    )
    return [name for package in packages for name in list_entry_names(package)]


def list_weight_metrics() -> list[str]:
    return list(list_entry_names("attncli.metrics.weights"))


def complete_metric_sort_order(incomplete: str) -> list[str]:
    """`METRIC` or `METRIC:rising`."""
    metric, colon, _ = incomplete.partition(":")
    found = [f"{metric}:rising"] if colon else list_head_metrics()
    return [name for name in found if name.startswith(incomplete)]


def list_rank_collapse_metrics() -> list[str]:
    """Metrics of states and of blocks, and the names of groups."""
    packages = ("attncli.metrics", "attncli.metrics.steps")
    return [*(name for package in packages for name in list_entry_names(package)), "depth", "spike"]


complete_metric = make_registry_name_completer("attncli.metrics")
complete_depth_metric = make_name_completer(list_rank_collapse_metrics)
complete_format = make_registry_name_completer("attncli.render")
complete_map = make_registry_name_completer("attncli.maps")
