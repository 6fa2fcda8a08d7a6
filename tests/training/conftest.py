"""What tests in other folders have left is passed over by the collections of garbage that each `Trainer` asks for."""

import gc

import pytest


@pytest.fixture(scope="session", autouse=True)
def garbage_is_looked_for_in_what_is_new() -> None:
    """Three times in each training: after ten thousand tests this took longer than the trainings."""
    gc.freeze()
