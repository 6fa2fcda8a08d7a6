"""Run the golden list against one checkout and keep all that it says, numbers and sentences, for `compare.py`.

    python tests/golden/run.py REPO OUT.json [--spelling new] [--only PART…] [--jobs 2]

REPO is the root of a checkout; its attncli is imported, whichever is installed. Every step runs in a process forked from one
that has imported everything, with one thread and a fixed environment, in a folder of its own.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from golden.forked import Forks, pin


def main() -> None:
    asked = arguments()
    pin(asked.repo)
    from golden.cases import CASES

    chosen = [case for case in CASES if not asked.only or any(part in case.name for part in asked.only)]  # fmt: skip
    records, seconds = Forks(asked.repo.resolve(), asked.spelling).run(chosen, asked.jobs)
    asked.out.write_text(json.dumps({"spelling": asked.spelling, "cases": records}, indent=1))
    for line in unexpected(records):
        print(line)
    print(f"{len(records)} cases, {seconds:.0f} s of CPU → {asked.out}")


def unexpected(records: Mapping[str, Any]) -> Iterator[str]:
    """Cases that measure nothing although they should, and refusals that refuse nothing."""
    for name, record in records.items():
        codes = [step["code"] for step in record.get("steps", ()) if "code" in step]
        refusal = name.startswith(("refused: ", "sweep: of weights, one cut off"))
        if "lost" in record or (refusal and codes == [0]) or max(codes, default=0) >= 70:
            yield f"look at {name}: {codes}"
        elif not refusal and {2, 3, 4} & {*codes}:
            said = next(step["err"] for step in record["steps"] if step.get("code", 0) > 1)
            yield f"look at {name}: {codes} {said.strip()[:150]}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the golden list against a checkout.")
    parser.add_argument("repo", type=Path, help="root of the checkout")
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--spelling", choices=("old", "new"), default="old")
    parser.add_argument("--only", nargs="+", default=[], help="cases with one of these in their names")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    return parser.parse_args()


if __name__ == "__main__":
    main()
