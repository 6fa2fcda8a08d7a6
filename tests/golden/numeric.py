"""The quick cases whose numbers are committed, and what of a report is a number.

    python tests/golden/numeric.py

writes `numbers.json` anew, from the attncli that is installed here.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

NUMBERS = Path(__file__).with_name("numbers.json")
SPELLING = "new"
"""The spelling of `spelling.py` that the command line has today."""

SIZES = "--layers 3 --tokens 5 --width 8 --heads 2"
BERT = "'random:bert?layers=2&width=16&heads=2' --dtype float64"
GPT2 = "'random:gpt2?layers=2&width=16&heads=2' --dtype float64"

QUICK = (
    f"rank-collapse {SIZES} --seeds 2",
    f"rank-collapse {SIZES} --seeds 1 --norm layer --mask causal --positions rope --biases --activation gelu",
    f"rank-collapse {SIZES} --seeds 1 --attention sinkhorn:3 --variants SAN --remove-outlier",
    f"rank-collapse {SIZES} --seeds 1 --metric stable_rank,effective_rank,log10_token_cosine_gap --variants pure",
    f"rank-collapse {SIZES} --seeds 1 --theorem --variants SAN,SAN+skip",
    "rank-collapse --layers 1 --width 8 --heads 2 --seeds 2 --sweep tokens=4:8",
    f"paths {SIZES} --seeds 2",
    f"paths {SIZES} --seeds 1 --by head",
    f"paths {SIZES} --seeds 1 --sample 3",
    "paths --count --layers 6 --heads 3",
    "approximate --pattern window:2 --length 8 --method line,cyclic --dtype float64 --allow-unmet",
    "approximate --decide --pattern window:2 --length 6",
    "approximate --pattern permutation --length 6 --method certificate --dtype float64 --allow-unmet",
    "rank-collapse --task circle --width 8 --seeds 1 --train-steps 0 --recurrence 4 --variants SAN",
    f"rank-collapse {BERT} --random-tokens 6 --variants SAN,transformer",
    f"rank-collapse {GPT2} --random-tokens 6 --variants pure",
    f"inspect-model {BERT} --random-tokens 8",
    f"inspect-model {GPT2} --random-tokens 8 --metric attention,states",
    "inspect-model 'random:t5?layers=2' --dtype float64 --random-tokens 6 --metric entropy,sink",
    f"inspect-model {GPT2} --sweep tokens=4:8",
    f"inspect-model {GPT2} --random-tokens 5 --attribute -1",
    "inspect-model 'random:bert?layers=2&width=16&heads=2' --weights-only --metric qk_stable_rank,ov_stable_rank",
    f"paths {BERT} --random-tokens 6",
    f"paths {GPT2} --random-tokens 5 --by steps",
    f"paths {GPT2} --random-tokens 5 --sensitivity",
)


def numbers_of(report: Any) -> dict[str, Any]:
    """The study and every row: its key, what it is worth, and over how many."""
    keys = ("metric", "variant", "layer", "head")
    return {
        "study": report["study"],
        "rows": [[[row[key] for key in keys], row["value"], row["spread"], row["n"]] for row in report["rows"]],
    }  # fmt: skip


def report_of(line: str) -> Any:
    from commands import attn
    from golden.case_types import Command

    outcome = attn(*Command(line).words(SPELLING), "--format", "json", "-q")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def main() -> None:
    lines = [f" {json.dumps(line)}: {json.dumps(numbers_of(report_of(line)))}" for line in QUICK]
    NUMBERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
