"""Completion in bash, which ends a word at each colon and each equals sign.

`attn rank-collapse random:be` reaches a program as the words `random`, `:`, `be`, and bash replaces
only the last one. So the words are joined again before typer reads them, and the part before the
last one is removed from each answer.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence

from attncli.cli.command_tree import parse_command

ASKED, WORDS, PLACE = "_ATTN_COMPLETE", "COMP_WORDS", "COMP_CWORD"
BREAKS = re.compile(r"[:=]+")


def run_shell_completion(run: Callable[[], int]) -> int:
    """Answer bash's completion requests; run everything else unchanged."""
    if os.environ.get(ASKED) != "complete_bash" or "\n" not in os.environ.get(WORDS, ""):
        return run()
    words, before = join_words_split_by_bash(
        os.environ[WORDS].split("\n")[: int(os.environ[PLACE]) + 1]
    )
    os.environ[WORDS], os.environ[PLACE] = "\n".join(words), str(len(words) - 1)
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer):
        code = run()
    sys.stdout.write(
        "".join(f"{line.removeprefix(before)}\n" for line in answer.getvalue().split())
    )
    return code


def join_words_split_by_bash(words: Sequence[str]) -> tuple[list[str], str]:
    """Join the words as they were typed; also return the prefix of the last one that bash keeps."""
    whole: list[str] = []
    joins = False
    for word in words:
        breaks = BREAKS.fullmatch(word) is not None
        if whole and (breaks or joins):
            whole[-1] += word
        else:
            whole.append(word)
        joins = breaks
    typed = "" if joins else words[-1]
    before = whole[-1].removesuffix(typed)
    return whole, before.partition("=")[2] if before.startswith("--") else before


def find_config_argument() -> str | None:
    """The file that the line so far names with --config."""
    typed = os.environ.get(WORDS) or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    found: str | None = parse_command(typed.split()[1:]).find_root().params.get("config")
    return found
