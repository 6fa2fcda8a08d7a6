"""Harsher rules than users meet: floating errors raise, and property tests are the same in every run."""

import gc
import logging
import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from io import StringIO

# Before torch and numpy are imported, here and in every process that a test starts: threads that wait for each other on
# busy cores cost several times what they save on models this small.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Nor is each of these processes to compile all of the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# OpenBLAS takes other kernels on other CPUs, which round differently, and a search that goes on from there ends in another fit:
# the outputs that documents show are those of one kind, which every x86 machine of the last ten years has.
if platform.machine() in ("x86_64", "AMD64"):
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from inline_runs import inline_runs

from attncli.cli.main import reduce_garbage_collections

# A shell lets what it runs in the background ignore Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.dont_write_bytecode = False
# As in the program; and what all tests together have imported stays, so that no collection goes through it.
reduce_garbage_collections()


LONG = frozenset({"processes", "training"})
"""Folders with tests of many seconds, and trainings, each of which collects garbage: little is there at the beginning."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: at the end no worker waits for another one."""
    items.sort(key=lambda item: LONG.isdisjoint(item.path.parts[:-1]))


def pytest_collection_finish() -> None:
    gc.freeze()


settings.register_profile(
    "attn",
    deadline=None,
    derandomize=True,
    print_blob=True,
    # How fast examples come says how busy the machine is.
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("attn")
# Else the examples would come from the constants of the modules that tests before have imported, which other workers do.
providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def floating_errors_raise() -> Iterator[None]:
    """Underflow stays silent: exponentials of very negative logits are meant to vanish."""
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        yield


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """What a test logs. pytest's own plugin is off: it visits every logger of every library six times for each test."""
    text = StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True)
def random_numbers_start_anew() -> None:
    """What a model draws when it is made does not depend on the tests before."""
    if "torch" in sys.modules:
        # torch.manual_seed also notes where it was called, for devices that there are not: ten times as slow
        sys.modules["torch"].default_generator.manual_seed(0)


@pytest.fixture(autouse=True)
def runs_in_this_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """What `attn ci` and `attn sweep` run happens here, but for tests that ask for processes of their own."""
    with nullcontext() if request.node.get_closest_marker("real_runs") else inline_runs():
        yield
