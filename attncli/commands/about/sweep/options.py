"""Options of a sweep: its models, the folder of their reports, and the engine."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from attncli.declare.options import DELETES, RUNS_JOBS, WRITES, Option
from attncli.options.completion import complete_entries

DEFAULT_FOLDER = "attn-sweep"

item_option = partial(Option, panel="Models")
engine_option = partial(Option, panel="Engine")


@dataclass(frozen=True)
class ItemOptions:
    """The models, and the number that is looked at."""

    model: Annotated[
        list[str],
        item_option(
            metavar="MODEL", usual=True, help="A model to include, written as SOURCE. Repeatable."
        ),
    ] = field(default_factory=list)
    glob: Annotated[
        list[str],
        item_option(
            "--glob",
            metavar="PATTERN",
            usual=True,
            help="Folders or files to include, such as 'runs/*/checkpoint-*'. Repeatable.",
        ),
    ] = field(default_factory=list)
    revisions: Annotated[
        str | None,
        item_option(
            metavar="PATTERN",
            help="Include the matching revisions of every --model on the Hub, such as 'step*'.",
        ),
    ] = None
    models_file: Annotated[
        str | None,
        item_option(
            metavar="FILE", help="Include the models in FILE, one per line; # starts a comment."
        ),
    ] = None
    into: Annotated[
        str,
        item_option(
            metavar="FOLDER",
            usual=True,
            applies=WRITES,
            help=(
                f"Keep one report per model in FOLDER, or at an fsspec address such as s3://bucket/sweep. [default: "
                f"{DEFAULT_FOLDER}]"
            ),
        ),
    ] = DEFAULT_FOLDER
    show: Annotated[
        str | None,
        item_option(
            metavar="METRIC",
            usual=True,
            help=(
                "Number to tabulate, as in 'max(sink[layer=-1])'; several values are averaged. [default: the report's "
                "first metric, after the last layer]"
            ),
        ),
    ] = None
    collect: Annotated[
        str | None,
        item_option(
            metavar="FOLDER",
            help=(
                "Run nothing: tabulate the reports in FOLDER, wherever they were made. With a COMMAND and models, "
                "only theirs; missing ones are listed."
            ),
        ),
    ] = None


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engine that runs the items."""

    engine: Annotated[
        str | None,
        engine_option(
            metavar="local[:N]|submitit|dask|ray|torchrun",
            usual=True,
            applies=RUNS_JOBS,
            complete=complete_entries("attncli.processes.engines"),
            help="What runs the items (see `attn list engines`). [default: local:1, under torchrun its processes]",
        ),
    ] = None
    engine_options: Annotated[
        list[str],
        engine_option(
            metavar="NAME=VALUE,…",
            applies=RUNS_JOBS,
            help="Options of the engine, such as partition=gpu,timeout_min=60 for submitit. Repeatable.",
        ),
    ] = field(default_factory=list)
    evict: Annotated[
        bool,
        engine_option(
            "--evict",
            applies=DELETES,
            help="Delete each model that this sweep downloaded from the Hub cache once its report is written.",
        ),
    ] = False
