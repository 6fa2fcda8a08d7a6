"""Two real processes: results in order, the first failure for all, and nobody waits for one that is gone."""

from pathlib import Path

import pytest
from processes import outcomes, two_ranks

SCRIPT = """
import os, signal, sys
from attncli.errors import InputError, LimitError
from attncli.processes.rank_communication import OtherRankFailed, exit_process, exchange_exit_codes, synchronize_ranks
from attncli.distributed_ranks import read_launch_environment
from attncli.processes.divide_work_over_ranks import WORK, divide_work_between_ranks

def told(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'exit_code', '')} {error}"

def fails(item):
    if item in (3, 4):
        raise InputError(f"text {item}")
    if item == 9:
        raise type("Local", (Exception,), {})("cannot travel")
    return item, read_launch_environment().rank

def killed(item):
    if read_launch_environment().rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item

synchronize_ranks()
rank = read_launch_environment().rank
print(divide_work_between_ranks(range(3), fails, str))
print(told(lambda: divide_work_between_ranks(range(6), fails, str)))
print(told(lambda: divide_work_between_ranks([0, 9], fails, str)))
print(told(lambda: divide_work_between_ranks(range(2), print, lambda item: f"{rank} {item}")))
WORK.together = True
print(divide_work_between_ranks(range(2), lambda item: item, str))
print(told(lambda: divide_work_between_ranks(range(2), fails, lambda item: f"{rank} {item}"))[:40])
WORK.together = False
if sys.argv[1] == "killed":
    print(told(lambda: divide_work_between_ranks(range(2), killed, str)))
elif rank == 1:
    print(exchange_exit_codes(3, "rank 1 has no such file"))
else:
    print(told(lambda: divide_work_between_ranks(range(2), fails, str)))
print(exchange_exit_codes(0, ""), flush=True)
exit_process(7)
"""

SAME = [
    "[(0, 0), (1, 1), (2, 0)]",
    "InputError 3 text 3",
    "RuntimeError  Local: cannot travel",
    "InputError 3 the processes do not see the same model and texts: rank 1 differs from rank 0; give all of them "
    "the same files.",
    "[0, 1]",
    "InputError 3 the processes do not see th",
]


@pytest.mark.slow
def test_what_one_rank_meets_all_learn(tmp_path: Path) -> None:
    first, second = outcomes(two_ranks(SCRIPT, ["left"], tmp_path))
    left = "RankExit(code=3, message='rank 1 has no such file')"
    assert first[1].splitlines() == [*SAME, "OtherRankFailed 3 rank 1 has no such file", "RankExit(code=0, message='')"]  # fmt: skip
    assert second[1].splitlines() == [*SAME, left, "RankExit(code=0, message='')"]
    assert (first[0], second[0]) == (7, 7)
    assert first[2] + second[2] == ""


@pytest.mark.slow
def test_a_killed_rank_ends_the_others_at_once(tmp_path: Path) -> None:
    first, second = outcomes(two_ranks(SCRIPT, ["killed"], tmp_path))
    assert second[0] == -9
    assert first[0] == 7
    *before, lost, _ = first[1].splitlines()
    assert before == SAME
    assert lost.startswith("LimitError 4 another process of this run was lost")


SHARES = """
import os
from attncli import resource_limits
from attncli.processes import rank_communication
from attncli.distributed_ranks import read_launch_environment

rank = read_launch_environment().rank
rank_communication.free_memory = lambda: 10**9 * (2 + rank)
resource_limits.process_memory = lambda: 0
rank_communication.synchronize_ranks()
print(resource_limits.available_memory(), flush=True)
rank_communication.exit_process(0)
"""


@pytest.mark.slow
def test_processes_share_what_was_free_before_they_began(tmp_path: Path) -> None:
    """What one of them asks for later may be promised to the other already."""
    for code, out, _ in outcomes(two_ranks(SHARES, [], tmp_path)):
        assert (code, out) == (0, f"{10**9}\n")
