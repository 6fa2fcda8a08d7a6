"""Measured: a sweep of tiny models in a process per item, on one warm worker and on two. Run: python tests/bench/sweep.py [ITEMS]

Random GPT-2 models of one layer, 32 tokens: starting a process is nearly all of an item's time. Wall times on a machine that
others use mean little, so the CPU seconds of each way stand beside them.
Must hold: two workers ≤ 0.6 × one in wall time, one worker ≤ 0.35 × a process per item in CPU time, and one table.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attncli.processes.runs import run_to_file

ITEMS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
MODELS = [f"random:gpt2?layers=1&width={width}&heads=1" for width in range(8, 8 + 8 * ITEMS, 8)]
OPTIONS = ("--random-tokens", "32", "--metric", "sink")
ATTN = (sys.executable, "-m", "attncli")
TWO_OVER_ONE, WARM_OVER_COLD = 0.6, 0.35


def spent() -> tuple[float, float]:
    """Wall and CPU seconds until now, of this process and all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(one.ru_utime + one.ru_stime for one in used)


def told(name: str, before: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = (now - then for now, then in zip(spent(), before, strict=True))
    print(
        f"{name:20} {wall:7.1f} s, {cpu:7.1f} s of CPU (load {os.getloadavg()[0]:.1f})", flush=True
    )
    return wall, cpu


def process_per_item(folder: Path) -> tuple[float, float]:
    before = spent()
    for place, model in enumerate(MODELS):
        assert run_to_file(["inspect-model", model, *OPTIONS], folder / f"{place}.json").finished
    return told("a process per item", before)


def swept(engine: str, folder: Path) -> tuple[float, float, bytes]:
    before = spent()
    names = [word for model in MODELS for word in ("--model", model)]
    line = [*ATTN, "sweep", "inspect-model", *names, *OPTIONS, "--engine", engine, "--into", str(folder / engine), "--format", "csv"]  # fmt: skip
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE)
    return *told(engine, before), done.stdout


def main() -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as scratch:
        one = swept("local:1", Path(scratch))
        two = swept("local:2", Path(scratch))
        cold = process_per_item(Path(scratch))
    workers, warm = two[0] / one[0], one[1] / cold[1]
    same = "one table" if one[2] == two[2] else "DIFFERENT tables"
    print(f"two workers / one: {workers:.2f} of the wall time (must be ≤ {TWO_OVER_ONE})")
    print(
        f"warm / a process per item: {warm:.2f} of the CPU time (must be ≤ {WARM_OVER_COLD}), {one[0] / cold[0]:.2f} of the wall time; {same}"
    )
    return int(workers > TWO_OVER_ONE or warm > WARM_OVER_COLD or one[2] != two[2])


if __name__ == "__main__":
    sys.exit(main())
