"""Measured costs of saved reports, as ratios within one run. Run: python tests/bench/reports.py

A report as `inspect-model` writes it, over four texts: CPU time of `attn check` and `attn compare` in this process, against
json.load of the same file; then `attn check` of a large one as a program of its own, with its start.
Must hold: check ≤ 8 × json.load, compare ≤ 20 ×; 200,000 rows in ≤ 6 s; a report that is too long in ≤ .5 s, unread.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

from commands import attn, attn_program
from page_reports import of_heads, share

from attncli.maths.significance_tests import mean, standard_deviation
from attncli.records import Report, Row
from attncli.render import FORMATS
from attncli.reports.json_report_reading import MOST_BYTES

ROWS, LARGE, TEXTS, HEADS = 10_565, 200_000, 4, 12
METRICS = [f"metric_{index}" for index in range(12)]
REPEATED = 5


def of_texts(row: Row, salt: int) -> Row:
    """The row as a mean over several texts; `salt` disturbs it a little."""
    if row.value is None:
        return row
    each = tuple(
        row.value + 0.01 * share(row.layer or 0, row.head or 0, text + salt)
        for text in range(TEXTS)
    )
    value = mean(each)
    deviation = standard_deviation(each, value)
    return replace(row, value=value, spread=deviation, n=TEXTS, each=each)


def write_report(path: Path, rows: int, salt: int = 0) -> str:
    layers = 1 + rows // (HEADS * (1 + len(METRICS)))
    report: Report = of_heads(layers, HEADS, METRICS)
    kept = tuple(of_texts(row, salt) for row in report.rows[:rows])
    texts = [{"sha256": str(text)} for text in range(TEXTS)]
    path.write_text(FORMATS["json"](replace(report, rows=kept, input={"texts": texts})))
    assert len(kept) == rows
    return str(path)


def cpu(work: Callable[[], object]) -> float:
    """The least of several CPU times: what others do on the machine only adds to it."""
    spent = []
    for _ in range(REPEATED):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def run(*words: str) -> None:
    outcome = attn(*words)
    assert outcome.code == 0, outcome.err


def load(path: str) -> object:
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def of_program(path: str, code: int) -> float:
    """CPU seconds of one `attn check`, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = attn_program("check", path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == code, done.stderr
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        old, new = (write_report(folder / f"{salt}.json", ROWS, salt) for salt in (0, 1))
        large = write_report(folder / "large.json", LARGE)
        long = folder / "long.json"
        with long.open("wb") as file:
            file.truncate(MOST_BYTES + 1)
        run("check", old)  # imports are nobody's cost
        plain = cpu(lambda: load(old))
        found = {
            f"check of {ROWS:,} rows / json.load": (cpu(lambda: run("check", old)) / plain, 8.0),
            "compare of two / json.load of one": (cpu(lambda: run("compare", old, new)) / plain, 20.0),
            f"check of {LARGE:,} rows, seconds": (of_program(large, 0), 6.0),
            "check of a report that is too long, seconds": (of_program(str(long), 3), 0.5),
        }  # fmt: skip
    for name, (value, most) in found.items():
        print(f"{name}: {value:.2f} (must be ≤ {most:g})")
    return int(any(value > most for value, most in found.values()))


if __name__ == "__main__":
    sys.exit(main())
