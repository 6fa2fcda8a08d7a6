"""Which models a sweep goes over, where their reports lie, and what runs them."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from attncli.options.completion import completion
from attncli.options.declared import DELETES, RUNS_JOBS, WRITES, Option
from attncli.registry import Registry

DEFAULT_FOLDER = "attn-sweep"

item_option = partial(Option, panel="Models")
engine_option = partial(Option, panel="Engine")


@dataclass(frozen=True)
class ItemOptions:
    """The models, and the number that is looked at."""

    model: Annotated[
        list[str],
        item_option(metavar="MODEL", usual=True, help="An item, as SOURCE. Repeatable."),
    ] = field(default_factory=list)
    glob: Annotated[
        list[str],
        item_option(
            "--glob", metavar="PATTERN", usual=True, help="Folders or files, such as 'runs/*/checkpoint-*'. Repeatable."
        ),
    ] = field(default_factory=list)  # fmt: skip
    revisions: Annotated[
        str | None,
        item_option(metavar="PATTERN", help="Of every --model on the hub, such as 'step*'."),
    ] = None
    models_file: Annotated[
        str | None,
        item_option(metavar="FILE", help="More items, one on each line; # begins a remark."),
    ] = None
    into: Annotated[
        str,
        item_option(
            metavar="FOLDER",
            usual=True,
            typed_alone=WRITES,
            help=f"One report per item; kept. A folder, or an address of fsspec such as s3://bucket/sweep. [default: {DEFAULT_FOLDER}]",
        ),
    ] = DEFAULT_FOLDER
    show: Annotated[
        str | None,
        item_option(
            metavar="METRIC",
            usual=True,
            help="The table's number, as in 'max(sink[layer=-1])'; a mean if there are several. "
            "[default: the report's first metric, after the last layer]",
        ),
    ] = None
    collect: Annotated[
        str | None,
        item_option(
            metavar="FOLDER",
            help="Run nothing: the table of the reports that lie there, wherever they were made. With a COMMAND and "
            "models only theirs, and what is missing is told.",
        ),
    ] = None


@dataclass(frozen=True)
class EngineOptions:
    """What runs the items."""

    engine: Annotated[
        str | None,
        engine_option(
            metavar="local[:N]|submitit|dask|ray|torchrun",
            usual=True,
            typed_alone=RUNS_JOBS,
            complete=completion(Registry("engine", "attncli.processes.engines").names),
            help="What runs the items: `attn list engines`. [default: local:1, under torchrun its processes]",
        ),
    ] = None
    engine_options: Annotated[
        list[str],
        engine_option(
            metavar="NAME=VALUE,…",
            typed_alone=RUNS_JOBS,
            help="Of the engine, such as partition=gpu,timeout_min=60 of submitit. Repeatable.",
        ),
    ] = field(default_factory=list)
    evict: Annotated[
        bool,
        engine_option(
            "--evict",
            typed_alone=DELETES,
            help="Remove each model that was downloaded for this from the hub's cache once its report is there.",
        ),
    ] = False
