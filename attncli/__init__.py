"""attn: measures attention matrices exactly, says what the numbers mean, and fails the build when they go wrong.

The way of the data. A question of `api` wires it, and a command is a shell around a question:

    source              →  observations      →  measures         →  Report  →  renderer  →  stdout / file
    synthetic network      states (c, R)        pure functions,     flat       table json
    checkpoint + input     strips of maps       one file each       frozen     csv markdown
    network, maps file     a head's weights                         rows       plot, CI

Rooms, top to bottom; a room imports only from rooms above it, and `tests/test_house.py` says so:

    errors       the error tree with its exit codes
    visible      text from anywhere, made safe to show
    records      Row, Report, provenance: the only types that travel between rooms
    registry     one mechanism for whatever is extended by adding a file
    limits       what the machine can hold
    threads      one BLAS thread around loops of our own
    stored       files that others wrote: JSON objects, safetensors without torch
    processes    one command in several processes, and commands of attn that attn itself starts
    writing      files written whole or not at all
    maths        numpy only, no input or output: the c+R arithmetic, bounds, laws of curves
    reports      finished reports: read back from JSON, put side by side
    networks     synthetic transformers in c+R form: specification, weights, files, one layer's step
    maps         synthetic attention maps, one kind per file
    patterns     sparse target patterns, one per file, and pattern files
    fits         one fixed attention module fitted to patterns: one method per file
    tasks        small networks trained here on the paper's tasks, one task per file
    watching     finds a model's blocks and attention while it runs, and hands on its states and strips of its maps
    models       a name or a live module → a loaded, understood model and its input
    heads        single heads from files, without torch
    surgery      parts of a model's blocks switched off, on its own code
    carried      tensors that go through model code in place of its stream: exact residuals, paths
    metrics      one measurement per file: of states, attention maps, activations, weights
    options      what can be asked, each option once, for Python and the command line
    studies      how a question is answered: source → observations → measures → Report, no printing
    gates        Report × conditions, or two reports × limits → verdicts → exit code
    render       one format per file: Report → text or a rich renderable; writes nothing
    training     a training run watched: a monitor for loops, a callback for transformers' Trainer
    api          the front door: every question as a function that returns a report
    guides       how to use it and how to read its numbers, one topic per file
    cli          parse → one question → gates → write; imports no torch

The docstring of a room names every file and sub-room in it, and where it has sub-rooms, in the same order: each imports only
from those above it. Where the files are entries of a registry, it says what one of them looks like.

torch and transformers are imported in watching, models, surgery, carried, metrics, tasks, studies, api, training and
processes alone, and only once a model is named or trained. `attn --help` and all synthetic work import neither.
"""

import importlib
from typing import Any

PUBLIC = {
    "rank_collapse": "attncli.commands.rank_collapse.command",
    "approximate": "attncli.commands.approximate.command",
    "inspect_model": "attncli.commands.inspect_model.command",
    "paths": "attncli.commands.paths.command",
    "generate_network": "attncli.commands.generate.command",
    "generate_maps": "attncli.commands.generate.command",
    "sweep": "attncli.commands.about.sweep.command",
    "measure": "attncli.commands.inspect_maps.command",
    "Monitor": "attncli.training.monitor",
    "read": "attncli.python.saved_reports",
    "compare": "attncli.commands.about.compare.command",
    "Report": "attncli.records",
    "Answer": "attncli.python.answers",
    "AttnError": "attncli.errors",
}
"""Names of the public API and where they live; none is imported before it is asked for."""

MODULES = ("errors", "training")
"""Rooms that callers reach into: `except attncli.errors.InputError`."""
HEAVY = ("Monitor",)
"""What needs torch to be imported at all: `from attncli import *` leaves it to those who ask for it by name."""

__all__ = ["__version__", *MODULES, *(name for name in PUBLIC if name not in HEAVY)]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # importlib.metadata takes longer to import than all of this package
        from importlib.metadata import version

        return version("attncli")
    if name in MODULES:
        return importlib.import_module(f"attncli.{name}")
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'attncli' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *PUBLIC})
