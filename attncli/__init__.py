"""attn: measures attention matrices exactly, says what the numbers mean, and fails the build when they go wrong.

The way of the data; a command wires it and does nothing else:

    source              →  observations      →  measures         →  Report  →  renderer  →  stdout / file
    synthetic network      states (c, R)        pure functions,     flat       table json
    checkpoint + input     strips of maps       one file each       frozen     csv markdown
    network, maps file     a head's weights                         rows       plot, CI

Rooms, top to bottom; a room imports only from rooms above it, and `tests/test_house.py` says so:

    errors       the error tree with its exit codes
    visible      text of others made harmless to show: on one line, no control characters, no commands of CI systems
    records      Row, Report, provenance: the only types that travel between rooms
    reports      finished reports: read back from JSON, put side by side
    registry     one mechanism for whatever is extended by adding a file
    limits       what the machine can hold
    stored       files that others wrote: JSON objects, safetensors without torch
    ranks        several processes that run one command: shares, and results put together
    maths        numpy only, no input or output: the c+R arithmetic, bounds, orders
    networks     synthetic transformers in c+R form: specification, weights, files, one layer's step
    maps         synthetic attention maps, one kind per file
    patterns     sparse target patterns, one per file, and pattern files
    fits         one fixed attention module fitted to patterns: one method per file
    checkpoints  models: files, loading, streamed attention, parts off, exact residuals; alone knows torch and transformers
    tasks        small networks trained here on the paper's tasks, one task per file
    metrics      one measurement per file: of states, attention maps, activations, weights
    studies      what a command answers: source → observations → measures → Report, no printing
    gates        Report × conditions, or two reports × limits → verdicts → exit code
    render       one format per file: Report → text or a rich renderable; writes nothing
    cli          thin commands, shared options, the one writer, the one error exit

`attn --help` and all synthetic work import neither torch nor transformers.
"""

import importlib
from typing import Any

PUBLIC = {
    "rank_collapse": "attncli.api.rank_collapse",
    "approximate": "attncli.api.approximate",
    "inspect_model": "attncli.api.inspect_model",
    "paths": "attncli.api.paths",
    "generate_network": "attncli.api.generate",
    "generate_maps": "attncli.api.generate",
    "read": "attncli.api.saved_reports",
    "compare": "attncli.api.saved_reports",
    "Report": "attncli.records",
    "Answer": "attncli.api.answers",
    "AttnError": "attncli.errors",
}
"""Names of the public API and where they live; none is imported before it is asked for."""

__all__ = ["__version__", *PUBLIC]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # importlib.metadata takes longer to import than all of this package
        from importlib.metadata import version

        return version("attncli")
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'attncli' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
