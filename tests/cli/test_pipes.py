"""Pipes, terminals and the environment: attn as a program."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from commands import ATTN, ONE, PLAIN, attn, attn_program

LONG = ("rank-collapse", "--layers", "60", "--seeds", "1", "--format", "json")
"""More than fits into the buffer of a pipe."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "merged"),
    [((), True), (("-o", "stdout"), False), (("--fail-if", "order > 1e9"), True)],
)
def test_a_reader_that_has_seen_enough_is_no_failure(
    options: tuple[str, ...], merged: bool, tmp_path: Path
) -> None:
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    with subprocess.Popen(
        [*ATTN, *LONG, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        cwd=tmp_path,
        env=PLAIN,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"{\n"
        process.stdout.close()
        err = process.stderr.read() if process.stderr else b""
        assert process.wait() == 0
    assert b"Error" not in err


@pytest.mark.slow
def test_what_that_reader_leaves_is_more_than_a_pipe_holds() -> None:
    assert len(attn(*LONG).out) > 2**16


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("list",), ("rank-collapse", *ONE)])
def test_a_reader_that_has_gone_before_the_first_line_is_no_failure(
    arguments: tuple[str, ...],
) -> None:
    read, write = os.pipe()
    os.close(read)
    process = attn_program(*arguments, stdout=write)
    os.close(write)
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
@pytest.mark.parametrize("arguments", [("rank-collapse", *ONE, "-o", "out.csv"), ("list",)])
def test_closed_streams_are_no_traceback(
    closed: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    redirection = {"stdout": ">&-", "stderr": "2>&-", "both": ">&- 2>&-"}[closed]
    process = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *ATTN, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=PLAIN,
        check=False,
    )
    assert process.returncode == 0 or (closed != "stderr" and process.returncode in (2, 4))
    assert "Traceback" not in process.stderr
    assert "bug" not in process.stderr
    if "-o" in arguments:
        assert (tmp_path / "out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("source", "code"), [("./no-such-file", 3), ("--laers", 2)])
def test_an_error_keeps_its_code_where_nobody_can_hear_it(source: str, code: int) -> None:
    with open("/dev/full", "w") as full:
        assert attn_program("rank-collapse", source, stderr=full).returncode == code


@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"GITHUB_ACTIONS": "1"}])
@pytest.mark.parametrize("arguments", [("rank-collapse", *ONE, "--plot"), ("--help",), ("oops",)])
def test_no_ansi_on_a_pipe(env: Mapping[str, str], arguments: tuple[str, ...]) -> None:
    process = attn_program(*arguments, env=env)
    assert process.returncode in (0, 2)
    assert "\x1b" not in process.stdout + process.stderr


@pytest.mark.slow
def test_lines_are_whole_on_a_pipe() -> None:
    """Sixteen columns of a wide table, however narrow the caller's own terminal is."""
    options = ("--variants", "all", "--remove-outlier", "--layers", "2", "--tokens", "5")
    header = next(
        line
        for line in attn_program("rank-collapse", *options).stdout.splitlines()
        if line.startswith(" layer ")
    )
    assert len(header.split()) == 1 + 2 * 6
    assert len(header) > 200


def on_a_terminal(env: Mapping[str, str], *arguments: str) -> str:
    """What a terminal of 80 columns receives."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*ATTN, *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**PLAIN, "COLUMNS": "80", "TERM": "xterm-256color", **env},
    ) as process:
        os.close(theirs)
        received = b""
        # Linux ends the conversation with an error once the other side has closed.
        try:
            while part := os.read(ours, 4096):
                received += part
        except OSError:
            pass
        process.wait()
    os.close(ours)
    return received.decode()


@pytest.mark.slow
def test_colour_on_a_terminal() -> None:
    assert "\x1b[" in on_a_terminal({}, "rank-collapse", *ONE)
    assert "\x1b[" in on_a_terminal({}, "--help")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("rank-collapse", *ONE, "--plot"), ("--help",)])
def test_a_dumb_terminal_gets_no_ansi(arguments: tuple[str, ...]) -> None:
    assert "\x1b" not in on_a_terminal({"TERM": "dumb"}, *arguments)


@pytest.mark.slow
def test_no_color_means_no_colour() -> None:
    """Bold is no colour; the colours of the plot are."""
    plain = on_a_terminal({"NO_COLOR": "1"}, "rank-collapse", *ONE, "--plot")
    assert "\x1b[3" not in plain.replace("\x1b[3m", "")


@pytest.mark.slow
def test_an_ascii_terminal_is_no_failure() -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    process = attn_program("rank-collapse", *ONE, "--plot", env=env)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["", "0", "abc", "-5", "1", "40", "9" * 30])
def test_every_width_is_a_width(columns: str) -> None:
    for arguments in (("rank-collapse", *ONE, "--plot"), ("--help",)):
        process = attn_program(*arguments, env={"COLUMNS": columns})
        assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.slow
def test_the_module_is_the_command() -> None:
    script = Path(sys.executable).with_name("attn")
    for arguments in (["--version"], ["list"], ["oops"]):
        process = attn_program(*arguments)
        if script.exists():
            other = subprocess.run([script, *arguments], capture_output=True, text=True, env=PLAIN)
            assert (other.stdout, other.stderr, other.returncode) == (
                process.stdout,
                process.stderr,
                process.returncode,
            )
    assert attn_program("--version").stdout.startswith("attn ")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["COLUMNS", "LINES", "TERMINAL_WIDTH", "RANK"])
def test_a_size_in_the_environment_that_is_none_is_as_good_as_not_said(name: str) -> None:
    """What draws tables reads some of these itself, at its import."""
    other = {"WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    size = "9" * 5000 if name in ("COLUMNS", "RANK") else "\u00b2"
    process = attn_program("rank-collapse", *ONE, env={**PLAIN, **other, name: size})
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == attn("rank-collapse", *ONE).out
