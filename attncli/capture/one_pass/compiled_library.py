"""The compiled one_pass.c: a shared library without Python or torch in it, built where a compiler is."""

import ctypes
import os
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from os import PathLike
from typing import NamedTuple

SWITCH = "ATTN_KERNEL"
"""The environment variable that says `off`, `own`, or the instructions to use instead of the widest ones."""

OWN = "own"
"""Where it says so, the models' own functions compute all attention."""

NAME = "attncli.capture.one_pass._one_pass"

OWN_FUNCTION = "the model's own function"

INSTRUCTIONS = ("plain", "avx2", "avx512")
"""Instruction sets that the library is compiled for, as its `instructions` numbers them."""

POINTERS = (
    *("query", "key", "value", "bias", "sinks", "spans", "listed", "vectors", "maps"),
    *("output", "row_statistics", "columns", "offsets"),
    *("weights", "scores", "column_squares", "products", "sizes"),
)
COUNTS = (
    *("batch", "heads", "heads_per_key", "queries", "keys", "width", "value_width"),
    *("start", "stop", "query_batch", "query_head", "query_row"),
    *("key_batch", "key_head", "key_row", "value_batch", "value_head", "value_row"),
    *("bias_batch", "bias_head", "bias_row", "span_batch", "written_from"),
    *("written_keys", "listed_count", "what", "vector_count", "vector_map"),
)
NUMBERS = ("scale", "cap", "small")


class Arguments(ctypes.Structure):
    """The same as `struct attention` in one_pass.c, where each field is explained."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int64) for name in COUNTS),
        *((name, ctypes.c_float) for name in NUMBERS),
    )


class Library(NamedTuple):
    """The library and the instructions that it uses on this processor."""

    functions: ctypes.CDLL
    level: int

    @property
    def instruction_set_name(self) -> str:
        return INSTRUCTIONS[self.level]

    def describe_attention_implementation(self) -> str:
        """How attention is computed here, in words for a report."""
        return f"one pass ({self.instruction_set_name})"

    def count_scratch_floats(self, arguments: Arguments) -> int:
        """How many floats a call needs to work in."""
        return int(self.functions.scratch_floats(ctypes.byref(arguments)))

    def compute_attention_of_maps(
        self, arguments: Arguments, first: int, last: int, scratch: int
    ) -> None:
        """Maps first … last - 1 of those that are computed, in the memory at `scratch`; other threads run meanwhile."""
        self.functions.attend(ctypes.byref(arguments), first, last, scratch, self.level)


class NoLibrary(NamedTuple):
    why: str
    own: bool = False
    """Whether the models' own functions compute all attention instead, and plain torch none."""

    def describe_attention_implementation(self) -> str:
        return f"{OWN_FUNCTION if self.own else 'tiles in plain torch'} ({self.why})"


def find_compiled_library() -> Library | NoLibrary:
    """The library as the environment asks for it, or why there is none."""
    setting = os.environ.get(SWITCH, "")
    if setting in ("off", OWN):
        return NoLibrary(f"{SWITCH}={setting}", setting == OWN)
    found = load_compiled_library()
    if isinstance(found, NoLibrary) or setting not in INSTRUCTIONS[: found.level]:
        return found
    return found._replace(level=INSTRUCTIONS.index(setting))


@cache
def load_compiled_library() -> Library | NoLibrary:
    spec = find_spec(NAME)
    if spec is None or spec.origin is None:
        return NoLibrary("one-pass library not built")
    try:
        return open_compiled_library(spec.origin)
    except OSError as error:
        return NoLibrary(f"not loaded: {error}")


def open_compiled_library(path: str | PathLike[str]) -> Library | NoLibrary:
    functions = ctypes.CDLL(str(path))
    size = getattr(functions, "arguments_size", None)
    # an editable install keeps a library that takes other arguments until it is built anew
    if size is None or size() != ctypes.sizeof(Arguments):
        return NoLibrary("one-pass library built from another version")
    declare_c_signatures(functions)
    return Library(functions, functions.instructions())


def declare_c_signatures(functions: ctypes.CDLL) -> None:
    """Say what the functions take and return."""
    pointer = ctypes.POINTER(Arguments)
    types: Mapping[str, tuple[list[type], type | None]] = {
        "instructions": ([], ctypes.c_int),
        "scratch_floats": ([pointer], ctypes.c_int64),
        "attend": ([pointer, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int], None),
    }
    for name, (takes, gives) in types.items():
        function = getattr(functions, name)
        function.argtypes, function.restype = takes, gives
