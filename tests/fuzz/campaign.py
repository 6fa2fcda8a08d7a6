"""Thousands of broken inputs, each in a fork, and how they ended.

    python tests/fuzz/campaign.py --cases 20000 --seed 0 [--first 5000] [--only maps,fit] [--keep FOLDER]

The same seed makes the same cases. Ctrl-C ends it with the figures so far, and --first goes on from there. What a fault
leaves behind is kept in a folder of its own.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __name__ in ("__main__", "__mp_main__"):  # workers are started from this file
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import models, patterns, read, reports, several, tensors, words
from fuzz.forks import Case, Ending, ended, load_everything
from fuzz.material import Material, material

PATIENCE = 20.0
"""Seconds on a processor after which a case hangs."""

Maker = Callable[[Random, Material, Path], Case]
MAKERS: Mapping[str, tuple[int, Maker]] = {
    "network": (12, tensors.network),
    "maps": (12, tensors.maps),
    "fit": (8, tensors.fit),
    "pattern": (12, patterns.pattern),
    "report": (14, reports.report),
    "gate": (10, reports.gate),
    "change": (6, reports.change),
    "listing": (4, reports.listing),
    "toml": (10, words.toml),
    "arguments": (12, words.arguments),
    "config": (8, models.config),
    "weights": (6, models.weights),
    "shards": (3, models.shards),
    "tokenizer": (5, models.tokenizer),
    "page": (8, several.page),
    "compare": (8, several.compare),
    "accept": (6, several.accept),
    "sweep": (6, several.sweep),
    "own maps": (8, read.own_maps),
    "name": (5, read.name),
    "text": (6, read.text),
    "adapter": (3, read.adapter),
    "reading": (5, read.reading),
}
"""How often each kind is drawn."""


def counters() -> dict[str, Counter[int]]:
    return defaultdict(Counter)


@dataclass
class Figures:
    """What came out."""

    cases: Counter[str] = field(default_factory=Counter)
    codes: dict[str, Counter[int]] = field(default_factory=counters)
    checked: Counter[str] = field(default_factory=Counter)
    """Runs with exit 0 or 1 whose numbers were computed otherwise too."""
    faults: list[str] = field(default_factory=list)

    def add(self, kind: str, number: int, case: Case, ending: Ending) -> None:
        self.cases[kind] += 1
        self.codes[kind][ending.code] += 1
        self.checked[kind] += case.check is not None and ending.code in (0, 1)
        for fault in ending.faults:
            words = " ".join(case.arguments)[:200]
            self.faults.append(f"{fault} | {kind} {number} | {words!r} | {ending.err[-300:]!r}")

    def lines(self) -> Iterator[str]:
        for kind, count in sorted(self.cases.items()):
            codes = ", ".join(f"{code}: {n}" for code, n in sorted(self.codes[kind].items()))
            yield f"{kind:10} {count:6}  exits {{{codes}}}  numbers checked {self.checked[kind]}"
        yield f"{sum(self.cases.values())} cases, {sum(self.checked.values())} with checked numbers, {len(self.faults)} faults"


@dataclass(frozen=True)
class Plan:
    """Which cases are run, and how."""

    cases: range
    seed: int
    patience: float = PATIENCE
    only: tuple[str, ...] = ()
    keep: Path | None = None
    verbose: bool = False


def campaign(plan: Plan, place: Path) -> Figures:
    """Run them all in folders below `place`."""
    load_everything()
    made = material(place / "material")
    shares = [share for share, _ in MAKERS.values()]
    figures = Figures()
    asked: list[int] = []
    # An exception would be lost where it falls into what the interpreter does around a fork.
    signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    for number in plan.cases:
        rng = Random(f"{plan.seed}/{number}")
        kind = rng.choices(list(MAKERS), shares)[0]
        if not asked and (not plan.only or kind in plan.only):
            one_case(plan, kind, number, rng, made, place, figures)
    return figures


def one_case(
    plan: Plan,
    kind: str,
    number: int,
    rng: Random,
    made: Material,
    place: Path,
    figures: Figures,
) -> None:
    folder = place / str(number)
    folder.mkdir()
    case = MAKERS[kind][1](rng, made, folder)
    ending = ended(case, folder, plan.patience)
    figures.add(kind, number, case, ending)
    if plan.verbose:
        print(kind, number, ending.code, ending.err[:200].strip(), file=sys.stderr)
    if ending.faults:
        print(figures.faults[-1], file=sys.stderr, flush=True)
    if ending.faults and plan.keep is not None:
        shutil.copytree(folder, plan.keep / f"{kind}-{number}", dirs_exist_ok=True)
    shutil.rmtree(folder)
    shutil.rmtree(place / f"{number}.streams")


def alone(plan: Plan) -> Figures:
    with tempfile.TemporaryDirectory() as place:
        return campaign(plan, Path(place))


def shared(plan: Plan, workers: int) -> Figures:
    """Every worker takes each so many-th case, in a process that has started no threads."""
    plans = [replace(plan, cases=plan.cases[first::workers]) for first in range(workers)]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        parts = pool.map(alone, plans, chunksize=1)
    total = Figures()
    for part in parts:
        total.cases += part.cases
        total.checked += part.checked
        total.faults += part.faults
        for kind, codes in part.codes.items():
            total.codes[kind] += codes
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--patience", type=float, default=PATIENCE)
    asked = parser.parse_args()
    began = time.monotonic()
    only = tuple(part for part in asked.only.split(",") if part)
    plan = Plan(
        range(asked.first, asked.cases), asked.seed, asked.patience, only, asked.keep, asked.verbose
    )
    figures = shared(plan, asked.workers) if asked.workers > 1 else alone(plan)
    print(*figures.lines(), f"{time.monotonic() - began:.0f} s", *figures.faults, sep="\n")
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
