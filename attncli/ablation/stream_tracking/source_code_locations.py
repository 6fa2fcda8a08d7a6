"""Locate operations in the model's code."""

import os
import sys
from types import FrameType
from typing import NamedTuple

import torch

import attncli

OWN = os.path.dirname(os.path.abspath(attncli.__file__))
WRAPPED_BLOCK = "run_wrapped_block"
"""The function of `block_forward_tracking` that runs a block."""
LIBRARY = os.path.dirname(os.path.abspath(torch.__file__))


class CallSite(NamedTuple):
    """One operation in the code; two additions on one line are two sites, and so are two calls of one function."""

    file: str
    line: int
    instructions: tuple[tuple[str, int], ...]
    """For every frame from the operation out to the block: its code's name and instruction offset."""

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def find_call_site_in_model_code() -> CallSite:
    """The operation that the model's code is executing, by the frames out to the block that is running; those of torch and
    of this package do not count."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != WRAPPED_BLOCK:
        if not frame.f_code.co_filename.startswith((OWN, LIBRARY)):
            frames.append(frame)
        frame = frame.f_back
    if not frames:
        return CallSite("?", 0, ())
    return CallSite(
        frames[0].f_code.co_filename,
        frames[0].f_lineno,
        tuple((frame.f_code.co_name, frame.f_lasti) for frame in frames),
    )
