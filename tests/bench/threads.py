"""What the caller's BLAS threads cost a learned fit: CPU seconds with the bound that every question sets, and without it.

    OPENBLAS_NUM_THREADS=2 python tests/bench/threads.py

The ratio is what is claimed; on one idle core it is 1.
"""

import resource

import numpy as np
import scipy.linalg  # noqa: F401 - so that its BLAS is there from the start
from threadpoolctl import threadpool_info

from attncli.fits import FitRequest
from attncli.fits._width_search import try_fit_at_width
from attncli.patterns import build_pattern

REPEATED = 3


def main() -> None:
    pattern = build_pattern(
        "random:k=4,weights=dirichlet", 256, np.random.default_rng(0), causal=False
    )
    request = FitRequest(d=16, dtype="float32", total_variation=0.01)
    threads = sorted({each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"})  # fmt: skip
    for name, search in (
        ("bounded", try_fit_at_width),
        ("unbounded", try_fit_at_width.__wrapped__),
    ):  # type: ignore[attr-defined]
        spent = min(cpu(lambda: search("learned", pattern, request, [0])) for _ in range(REPEATED))  # noqa: B023
        print(f"{name:>10}: {spent:6.2f} s of CPU, with {threads} BLAS threads outside")


def cpu(work: object) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()  # type: ignore[operator]
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
