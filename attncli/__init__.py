"""attn: measures attention matrices exactly, says what the numbers mean, and fails the build when they go wrong.

The way of the data:

    command line, Python, config file     one declaration of options for all three
      → source                            which kind of thing the user named
      → prepare                           a verified model with its inputs, or a network, maps, weights
      → run                               states of the residual stream, strips of maps, a head's weights, a fit
      → report                            flat rows, findings, a headline
      → gates → render → stdout or a file

Packages, top to bottom; each imports only from those above it, and `tests/test_house.py` says so:

    errors                  the error tree with its exit codes
    sanitize                text from outside, made safe to show
    records                 Row, Report, provenance: the types that travel between packages
    registry                one mechanism for whatever is extended by adding a file
    forward_argument_types  types of what a model's own code is called with
    resource_limits         what the machine can hold
    tolerances              every tolerance of a verification: what is compared, by which norm, how much, why
    blas_threads_and_lock   one BLAS thread around loops of our own; one measurement at a time
    distributed_ranks       which process this is, by the environment alone
    progress                how far long work is: callbacks, and a bar on a terminal
    io                      files that others wrote, read without torch; files written whole or not at all
    maths                   numpy only, no input or output: the c+R arithmetic, bounds, laws of curves
    reports                 finished reports: read back from JSON, compared
    networks                synthetic transformers in c+R form: specification, weights, files, one layer's step
    maps                    synthetic attention maps, one kind per file
    patterns                sparse target patterns, one per file, and pattern files
    fits                    one fixed attention module fitted to patterns: one method per file
    metrics                 one measurement per file: of states, attention maps, activations, weights
    gates                   a report against conditions, or two reports against limits → verdicts → exit code
    model_and_file_sources  what a SOURCE on the command line names
    declare                 how options and commands are declared, once for Python and for the command line
    processes               one command in several processes, and commands of attn that attn itself starts
    capture                 finds a model's blocks and attention while it runs, and emits its states and strips of its maps
    models                  a name or an in-memory module → a loaded, understood model and its input
    head_weights            single heads from files, without torch
    ablation                parts of a model's blocks switched off, on its own code
    tensor_subclasses       tensors that travel through model code in place of its stream: exact residuals, path streams
    options                 groups of options that several commands share
    analysis                what several questions, or a question and the monitor, share
    render                  one format per file: Report → text or a rich renderable; writes nothing
    training                a training run monitored: a monitor for loops, a callback for transformers' Trainer
    python                  questions as functions that take Python's own things and return a report
    guides                  how to use attn and how to read its numbers, one topic per file
    cli                     parse → one question → gates → write; imports no torch, and knows no command
    commands                a folder for each question: its options, its run, its report

The docstring of a package names every file and sub-package in it, and where it has sub-packages, in the same order: each
imports only from those above it. Where the files are entries of a registry, it says what one of them looks like.

torch and transformers are imported in capture, models, ablation, tensor_subclasses, metrics, analysis, training,
processes and commands alone, and only once a model is named or trained. `attn --help` and all synthetic work import neither.
"""

import importlib
from typing import Any

PUBLIC = {
    "rank_collapse": "attncli.commands.rank_collapse.command",
    "approximate": "attncli.commands.approximate.command",
    "inspect_model": "attncli.commands.inspect_model.command",
    "inspect_weights": "attncli.commands.inspect_weights.command",
    "inspect_maps": "attncli.commands.inspect_maps.command",
    "dispersion": "attncli.commands.dispersion.command",
    "attribute": "attncli.commands.attribute.command",
    "paths": "attncli.commands.paths.command",
    "count_paths": "attncli.commands.count_paths.command",
    "sensitivity": "attncli.commands.sensitivity.command",
    "head_capacity": "attncli.commands.head_capacity.command",
    "verify_fit": "attncli.commands.verify_fit.command",
    "generate_network": "attncli.commands.generate.network",
    "generate_maps": "attncli.commands.generate.maps",
    "sweep": "attncli.commands.utilities.sweep.command",
    "Monitor": "attncli.training.monitor",
    "read": "attncli.python.report_answer",
    "compare": "attncli.commands.utilities.compare_reports",
    "Report": "attncli.records",
    "Answer": "attncli.python.report_answer",
    "AttnError": "attncli.errors",
}
"""Names of the public API and where they live; none is imported before it is asked for."""

MODULES = {
    "errors": "attncli.errors",
    "training": "attncli.training",
    "reproduce": "attncli.python.reproduce",
}
"""Modules that callers reach into: `except attncli.errors.InputError`, `attncli.reproduce.circle()`."""
HEAVY = ("Monitor",)
"""What needs torch to be imported at all: `from attncli import *` leaves it to those who ask for it by name."""

__all__ = ["__version__", *MODULES, *(name for name in PUBLIC if name not in HEAVY)]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # importlib.metadata takes longer to import than all of this package
        from importlib.metadata import version

        return version("attncli")
    if name in MODULES:
        return importlib.import_module(MODULES[name])
    if name in PUBLIC:
        found = getattr(importlib.import_module(PUBLIC[name]), name)
        if not hasattr(found, "any_module"):  # a class, or no question
            return found
        maker = importlib.import_module("attncli.python.public_functions")
        return maker.make_public_function(found, __name__)
    from attncli.declare.replaced_options import MOVED_FUNCTIONS

    now = f": it is {MOVED_FUNCTIONS[name]} now" if name in MOVED_FUNCTIONS else ""
    raise AttributeError(f"module 'attncli' has no attribute '{name}'{now}")


def __dir__() -> list[str]:
    return sorted({*__all__, *PUBLIC})
