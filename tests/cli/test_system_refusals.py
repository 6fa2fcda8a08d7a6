"""What the system refuses is said of the file that was asked for; a signal that ends attn leaves nothing half-written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import SMALL, attn

import attncli

LONG = "x" * 300


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        ("inspect-model", f"./{LONG}"),
        ("rank-collapse", f"./{LONG}"),
        ("paths", f"./{LONG}"),
        ("inspect-model", f"{LONG}.safetensors"),
        ("check", f"{LONG}.json"),
        ("compare", f"{LONG}.json", f"{LONG}.json"),
        ("approximate", "--pattern", f"{LONG}.npy"),
        ("verify-fit", f"{LONG}.safetensors"),
        ("head-capacity", f"./{LONG}"),
    ],
    ids=" ".join,
)
def test_a_file_that_the_system_does_not_give_is_the_input(line: tuple[str, ...]) -> None:
    outcome = attn(*line)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (3, "", 1), outcome.err
    assert "stdout" not in outcome.err
    assert "name too long" in outcome.err


def test_python_says_the_same() -> None:
    with pytest.raises(attncli.errors.InputError, match="cannot be used: file name too long"):
        attncli.inspect_model(f"./{LONG}")


def test_what_a_callers_own_function_lacks_is_the_callers() -> None:
    def progress(*_: object) -> None:
        Path("nowhere/log.txt").touch()

    with pytest.raises(FileNotFoundError, match="nowhere"):
        attncli.rank_collapse(layers=1, tokens=3, width=4, heads=1, seeds=1, progress=progress)


@pytest.mark.parametrize(
    "line",
    [
        ("check", "r.json", "-o", "loop.html"),
        ("check", "r.json", "--plot", "loop.png"),
        ("rank-collapse", *SMALL, "-o", "loop.json"),
        ("generate", "network", *SMALL[:-2], "-o", "loop.safetensors"),
        ("check", "r.json", "-o", f"{LONG}.json"),
    ],
    ids=" ".join,
)
def test_a_file_that_cannot_be_written_is_named(line: tuple[str, ...]) -> None:
    assert attn("rank-collapse", *SMALL, "-o", "r.json", "-q").code == 0
    os.symlink(line[-1], line[-1]) if "loop" in line[-1] else None
    outcome = attn(*line)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1), outcome.err
    assert f"cannot write {line[-1]}: " in outcome.err


WRITES = """
import signal, sys
for name in ("SIGTERM", "SIGHUP"):  # which who starts this may have had ignored
    signal.signal(getattr(signal, name), signal.SIG_DFL)
from pathlib import Path
from attncli.io.atomic_files import write_atomically

def write(path):
    path.write_text("half")
    print("half", flush=True)
    sys.stdin.read()

write_atomically(Path("whole.txt"), write)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_being_written_goes_with_whoever_writes_it(number: int, tmp_path: Path) -> None:
    """And the process still ends by the signal, as who sent it may ask."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", WRITES], **pipes, text=True) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "half\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.wait() == -number
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_window_that_there_is_not_is_not_needed() -> None:
    """Figures go to files, whatever MPLBACKEND says."""
    drawn = subprocess.run(
        [sys.executable, "-m", "attncli", "rank-collapse", *SMALL, "--plot", "x.png", "-q"],
        env={**os.environ, "MPLBACKEND": "nonsense"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert drawn.returncode == 0, drawn.stderr
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")
