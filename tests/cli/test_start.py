"""What the command does to its environment before heavy libraries read it, and to the interpreter before they fill it."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from commands import PLAIN

AT_THE_IMPORT_OF_TORCH = """
import ctypes, os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            getenv = ctypes.CDLL(None).getenv
            getenv.restype = ctypes.c_char_p
            os.write(1, getenv(b"OMP_WAIT_POLICY") or b"not set")
            os._exit(0)

sys.meta_path.insert(0, Watch())
from attncli.cli.main import main
main()
"""
"""A program that says what torch's own libraries would read, and ends there."""


def wait_policy(*arguments: str, **environment: str) -> str:
    plain = {name: value for name, value in PLAIN.items() if name != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_IMPORT_OF_TORCH, *arguments],
        env={**plain, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "inspect-model random:bert",
        "rank-collapse random:bert",
        "reproduce circle",
        "paths random:bert",
        "reproduce sort",
        "approximate --pattern random:bert:0.0:top=2",
    ],
)
def test_idle_threads_of_torch_sleep(line: str) -> None:
    assert wait_policy(*line.split()) == "PASSIVE"


@pytest.mark.slow
def test_also_where_processes_meet_before_the_command_runs() -> None:
    meeting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    assert wait_policy("paths", "random:bert", **meeting) == "PASSIVE"


@pytest.mark.slow
def test_what_the_user_says_stays() -> None:
    assert wait_policy("paths", "random:bert", OMP_WAIT_POLICY="ACTIVE") == "ACTIVE"


AT_ITS_END = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0, gc.get_threshold(), gc.isenabled()))
from attncli.cli.main import main
main()
"""


def test_cycles_are_looked_for_seldom_among_all_and_not_at_the_end() -> None:
    young, middle, _ = gc.get_threshold()
    done = subprocess.run([sys.executable, "-c", AT_ITS_END, "--version"], capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.endswith(f"True {(young, middle, 100)} True\n")


MISTAKES = [
    f"{command} random:bert {words}"
    for command in ("inspect-model", "rank-collapse", "paths")
    for words in (
        "--metric nonsense",
        "--random-tokens 0",
        "--samples 0",
        "--random-tokens 8 --token-ids 1,2",
        "--device cpu --device-map auto",
        "--device-map nonsense",
        "--dtype nonsense",
        "--fail-if nonsense>1",
        "--tensor-parallel",
        "--token-ids 1,x",
    )
]
MISTAKES += [
    f"inspect-model random:bert {words}"
    for words in ("--top 0", "--sort nonsense", "--pairs 0", "--layers x", "--heads 5-3")
]
MISTAKES += [
    f"paths random:bert {words}" for words in ("--steps nonsense", "--by x", "--dtype float16")
]


@pytest.mark.slow
def test_mistakes_are_told_before_torch_is_imported() -> None:
    """A wrong word is answered at once, not after the seconds that torch and transformers take."""
    program = (
        "import sys; from attncli.cli.main import run_command_line\n"
        "for line in sys.argv[1:]:\n"
        "    print(run_command_line(line.split()), 'torch' in sys.modules, line)\n"
    )
    words = [sys.executable, "-c", program, *MISTAKES]
    done = subprocess.run(words, env=PLAIN, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"2 False {line}" for line in MISTAKES]


@pytest.mark.slow
@pytest.mark.parametrize("offline", [True, False])
def test_a_mistyped_name_costs_no_client_of_the_hub(offline: bool, tmp_path: Path) -> None:
    """Where the cache has nothing of this name, and the hub is not asked or has no address here."""
    code = (
        "import sys; from attncli.cli.main import run_command_line; "
        f"code = run_command_line(['inspect-model', 'no-such/model', *{['--offline'] * offline}]); "
        "print(code, *{'huggingface_hub.hf_api', 'torch', 'transformers'} & set(sys.modules))"
    )
    nowhere = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "https://no-such-host.invalid"}
    plain = {name: value for name, value in PLAIN.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run([sys.executable, "-c", code], env={**plain, **nowhere}, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "3\n"
    why = "the hub was not asked (offline)" if offline else "the hub cannot be reached"
    assert f"no-such/model is not in the cache and {why}: " in done.stderr
