"""Silence transformers, accelerate, torch and the hub's client while a model loads; errors and warnings remain."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from huggingface_hub.utils import logging as hub_logging
from transformers.utils import logging as transformers_logging

SILENT = logging.CRITICAL + 1


class NestingDepth:
    """Depth of nested contexts; only the outermost changes the libraries' settings."""

    now = 0


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Silence log lines, Python warnings and progress bars; restore all settings afterwards.

    A new level makes every logger forget what it knows, which costs more than many a pass of a small model.
    """
    NestingDepth.now += 1
    try:
        with silence_logging() if NestingDepth.now == 1 else nullcontext():
            yield
    finally:
        NestingDepth.now -= 1


@contextmanager
def silence_logging() -> Iterator[None]:
    levels = [(log, log.get_verbosity()) for log in (transformers_logging, hub_logging)]
    accelerate = logging.getLogger("accelerate")
    level = accelerate.level
    accelerate.setLevel(SILENT)
    bars = transformers_logging.is_progress_bar_enabled()
    for log, _ in levels:
        log.set_verbosity(SILENT)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        accelerate.setLevel(level)
        for log, verbosity in levels:
            log.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def silence_native_stderr() -> Iterator[None]:
    """Discard what native code writes to stderr by itself, such as the report of a panic."""
    try:
        saved = os.dup(2)
    except OSError:  # closed by the caller: nothing to hush
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if sys.stderr is not None:
        sys.stderr.flush()
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
