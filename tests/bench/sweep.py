"""Measured: a sweep of tiny models in a process per item, on one warm worker and on two. Run: python tests/bench/sweep.py [ITEMS]

Random GPT-2 models of 8 layers, two texts of 512 tokens: starting a process is most of an item's time, but not of 40 items'.
Each worker imports torch and transformers for itself, 4 s of CPU, at the same time as the others: with S seconds of that and I
of items, N workers take S + I/N. So the items must take four times what the start does, or .6 cannot be had by any engine;
with items of .15 s (one layer, 32 tokens) it is .7 at best.
Must hold: two workers ≤ 0.6 × one in wall time, one worker ≤ 0.35 × a process per item in CPU time, and one table.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from attncli.processes.command_in_subprocess import run_command_to_report_file

ITEMS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
MODELS = [f"random:gpt2?layers=8&width={width}&heads=4" for width in range(8, 8 + 8 * ITEMS, 8)]
OPTIONS = ("--random-tokens", "512", "--samples", "2", "--metric", "attention")
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
        assert run_command_to_report_file(
            ["inspect-model", model, *OPTIONS], folder / f"{place}.json"
        ).has_report
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
