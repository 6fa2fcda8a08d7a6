"""Options of a sweep: its models, the folder of their reports, and the engine."""

from dataclasses import dataclass
from functools import partial

from attncli.declare.option_declarations import DELETES, RUNS_JOBS, WRITES, declare_option
from attncli.options.value_completion import make_registry_name_completer

DEFAULT_FOLDER = "attn-sweep"

item_option = partial(declare_option, panel="Models")
engine_option = partial(declare_option, panel="Engine")


@dataclass(frozen=True)
class ItemOptions:
    """The models, and the number that is looked at."""

    model: list[str] = item_option(
        default=[],
        metavar="MODEL",
        usual=True,
        help="A model to include, written as SOURCE. Repeatable.",
    )
    glob: list[str] = item_option(
        default=[],
        metavar="PATTERN",
        usual=True,
        help="Folders or files to include, such as 'runs/*/checkpoint-*'. Repeatable.",
    )
    revisions: str | None = item_option(
        metavar="PATTERN",
        help="Include the matching revisions of every --model on the Hub, such as 'step*'.",
    )
    models_file: str | None = item_option(
        metavar="FILE", help="Include the models in FILE, one per line; # starts a comment."
    )
    into: str = item_option(
        default=DEFAULT_FOLDER,
        metavar="FOLDER",
        usual=True,
        applies=WRITES,
        help=(
            f"Keep one report per model in FOLDER, or at an fsspec address such as s3://bucket/sweep. [default: "
            f"{DEFAULT_FOLDER}]"
        ),
    )
    show: str | None = item_option(
        metavar="METRIC",
        usual=True,
        help=(
            "Number to tabulate, as in 'max(sink[layer=-1])'; several values are averaged. [default: the report's "
            "first metric, after the last layer]"
        ),
    )
    collect: str | None = item_option(
        metavar="FOLDER",
        help=(
            "Run nothing: tabulate the reports in FOLDER, wherever they were made. With a COMMAND and models, "
            "only theirs; missing ones are listed."
        ),
    )


@dataclass(frozen=True)
class EngineOptions:
    """Options of the engine that runs the items."""

    engine: str | None = engine_option(
        metavar="local[:N]|submitit|dask|ray|torchrun",
        usual=True,
        applies=RUNS_JOBS,
        complete=make_registry_name_completer("attncli.processes.engines"),
        help="What runs the items (see `attn list engines`). [default: local:1, under torchrun its processes]",
    )
    engine_options: list[str] = engine_option(
        default=[],
        metavar="NAME=VALUE,…",
        applies=RUNS_JOBS,
        help="Options of the engine, such as partition=gpu,timeout_min=60 for submitit. Repeatable.",
    )
    evict: bool = engine_option(
        default=False,
        applies=DELETES,
        help="Delete each model that this sweep downloaded from the Hub cache once its report is written.",
    )
