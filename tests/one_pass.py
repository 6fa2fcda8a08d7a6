"""The one-pass library for tests: the installed one, or compiled here where the package was installed without a compiler."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from documents import README

from attncli.capture.one_pass import compiled_library as library_module
from attncli.capture.one_pass import one_pass_checked_against_eager
from attncli.capture.one_pass.compiled_library import SWITCH, Library, open_compiled_library

ROOT = README.parent
SOURCE = "attncli/capture/one_pass/one_pass.c"
FLAGS = re.findall(r'"(-[\w-]+)"', (ROOT / "setup.py").read_text())
MORE_FLAGS = "ONE_PASS_FLAGS"
"""The environment variable of further flags, such as those of sanitizers."""
COMPILER = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)

needs_library = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")


def compile_library(folder: str, *flags: str) -> Path:
    """Compile the C file as setuptools does, with more flags."""
    path = Path(folder, "one_pass.so")
    assert COMPILER is not None
    command = [COMPILER, "-shared", "-fPIC", *FLAGS, *flags, str(ROOT / SOURCE)]
    subprocess.run([*command, "-lm", "-o", str(path)], check=True)
    return path


@cache
def compiled() -> Library:
    """The library as it is in the working copy, whatever is installed."""
    more = ("-Wall", "-Wextra", "-Werror", *os.environ.get(MORE_FLAGS, "").split())
    found = open_compiled_library(compile_library(tempfile.mkdtemp(), *more))
    assert isinstance(found, Library)
    return found


@contextmanager
def one_pass(setting: str = "", fewest_cells: int = 0) -> Iterator[None]:
    """Within, attention is computed in one pass wherever it is covered; `off`: in tiles; `own`: nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, setting)
        patch.setattr(library_module, "load_compiled_library", compiled)
        patch.setattr(one_pass_checked_against_eager, "FEWEST_CELLS", fewest_cells)
        yield
