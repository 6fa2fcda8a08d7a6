"""Measured: 32 texts in one process and over the two of torchrun, wall time in one run. Run: python tests/bench/torchrun.py [TURNS]

A random BERT of 6 blocks, width 384, 12 heads; one thread in every process; the two ways take turns and the better
time of each counts. Start-up (torch, transformers, the model) is in all of them.
Must hold: two processes ≤ 0.65 × one, and the same report to the byte.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL = "random:bert?layers=6&width=384&heads=12&max_position_embeddings=1024"
LINE = ("inspect-model", MODEL, "--metric", "attention,spectra", "--random-tokens", "1024", "--samples", "32", "-q", "-o", "r.json")  # fmt: skip
ONE = (sys.executable, "-m", "attncli")
TWO = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "attncli")
LIMIT = 0.65
TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 2


def timed(command: tuple[str, ...], folder: Path) -> tuple[float, bytes]:
    """Seconds, and the report."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    start, before = time.monotonic(), os.times().children_user
    subprocess.run([*command, *LINE], cwd=folder, env={**os.environ, **threads}, check=True)
    spent = os.times().children_user - before
    print(f"{spent:6.1f} s of CPU in all;", end=" ")
    return time.monotonic() - start, (folder / "r.json").read_bytes()


def main() -> int:
    best = {ONE: float("inf"), TWO: float("inf")}
    reports = set()
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(TURNS):
            for command, name in ((ONE, "one process"), (TWO, "two processes")):
                load = os.getloadavg()[0]
                seconds, report = timed(command, Path(folder))
                reports.add(report)
                best[command] = min(best[command], seconds)
                print(f"turn {turn + 1}: {name:13} {seconds:6.1f} s (load before: {load:.1f})", flush=True)  # fmt: skip
    ratio = best[TWO] / best[ONE]
    same = "the same report" if len(reports) == 1 else "DIFFERENT reports"
    print(f"two / one: {ratio:.2f} (must be ≤ {LIMIT}), {same}")
    return int(ratio > LIMIT or len(reports) > 1)


if __name__ == "__main__":
    sys.exit(main())
