"""One command in two processes, started as torchrun starts them, or by torchrun itself."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from warm import Warm, environment

from attncli.processes.rank_process_launch import find_free_port

Process = subprocess.Popen[str]


def started(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Process:
    return subprocess.Popen(
        command,
        env=env,
        cwd=folder,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def two_ranks(program: str, words: Sequence[str], folder: Path) -> list[Warm]:
    """Two processes that know of each other, and nobody who looks after them."""
    port = str(find_free_port())
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    return [
        Warm(program, words, environment(RANK=str(rank), LOCAL_RANK=str(rank), **meeting), folder)
        for rank in range(2)
    ]


def outcomes(processes: Sequence[Process | Warm]) -> list[tuple[int | None, str, str]]:
    """Exit code, stdout and stderr of each."""
    try:
        said = [process.communicate() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *text) for process, text in zip(processes, said, strict=True)]


TORCHRUN = "import runpy; runpy.run_module('torch.distributed.run', run_name='__main__')"


def torchrun(*arguments: str, folder: Path, program: Sequence[str] = ("-m", "attncli")) -> Warm:
    """The launcher is warm; what it starts is not."""
    options = ("--nproc-per-node", "2", "--master-port", str(find_free_port()))
    return Warm(TORCHRUN, [*options, *program, *arguments], environment(), folder)


def children(pid: int) -> list[int]:
    """Of a process, in the order in which it has started them."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]
