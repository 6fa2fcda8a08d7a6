"""While one waits at a terminal: something is said before anything heavy is imported, and nothing of it stays."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from commands import ATTN, PLAIN
from small_checkpoints import saved

from attncli.progress import ProgressBar

ERASED = "\r\x1b[2K"


def on_a_terminal(*arguments: str, term: str = "xterm") -> tuple[str, str]:
    """stdout, and what a terminal on stderr was sent."""
    mine, its = pty.openpty()
    with subprocess.Popen([*ATTN, *arguments], stdout=subprocess.PIPE, stderr=its, text=True, env={**PLAIN, "TERM": term}) as process:  # fmt: skip
        os.close(its)
        assert process.stdout is not None
        out, seen = process.stdout.read(), b""
        while True:
            try:
                part = os.read(mine, 4096)
            except OSError:  # the other end is closed
                break
            seen += part
            if not part:
                break
    os.close(mine)
    return out, seen.decode().replace("\r\n", "\n")


def left_over(seen: str) -> str:
    """What stays on the terminal: lines are written over, taken back, and gone up to."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\n|\r|[^\x1b\n\r]+", seen):
        if part == "\n":
            at += 1
            lines += [""] * (at == len(lines))
        elif part == "\x1b[1A":
            at -= 1
        elif part == "\x1b[2K":
            lines[at] = ""
        elif part[0] not in "\r\x1b":
            lines[at] = part  # each of these lines is written from its beginning
    return "".join(lines).strip()


@pytest.mark.slow
def test_a_model_is_said_to_be_loaded_and_the_words_go(tmp_path: Path) -> None:
    """The first word comes before the folder is looked into."""
    saved("BertModel", tmp_path)
    asked = ("inspect-model", str(tmp_path), "--token-ids", "4,5,6,7", "--metric", "sink")
    out, seen = on_a_terminal(*asked)
    assert seen.startswith(f"loading {tmp_path}"[:79])
    assert f"{ERASED}measuring …" in seen
    assert left_over(seen) == ""
    assert "loading" not in out


@pytest.mark.slow
def test_words_go_before_an_error_comes(tmp_path: Path) -> None:
    _, seen = on_a_terminal("rank-collapse", f"{tmp_path}/none")
    assert seen.startswith("loading ")
    assert left_over(seen).startswith("attn: there is no folder")


@pytest.mark.slow
@pytest.mark.parametrize("silence", [("-q",), ("--no-progress",)])
def test_silence_is_kept_where_it_is_asked_for(silence: tuple[str, ...]) -> None:
    out, seen = on_a_terminal("rank-collapse", "--layers", "2", "--seeds", "1", *silence)
    assert (bool(out), seen) == (True, "")


@pytest.mark.slow
def test_a_terminal_that_cannot_take_back_is_told_nothing() -> None:
    assert on_a_terminal("rank-collapse", "--layers", "2", "--seeds", "1", term="dumb")[1] == ""


def test_a_line_that_would_wrap_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one line of the terminal can be taken back; what a name holds does nothing to it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    bar = ProgressBar()
    bar.show_status("loading \x1b[31m" + "x" * 500)
    bar.stop_bar_display()
    said = capsys.readouterr().err
    assert said.endswith(ERASED)
    assert len(said) == 79 + len(ERASED)
    assert "\x1b[31m" not in said
