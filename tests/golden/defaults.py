"""What becomes of every default in every kind of run: `defaults.json`, the oracle for whoever changes how defaults are settled.

    python tests/golden/defaults.py REPO OUT.json [--spelling new] [--list]

The committed table says which runs, options and values there are; --list makes it anew from `tests/cli/test_defaults.py`.
`compare.py` compares two such tables.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import argparse
import json
import shutil
from collections.abc import Mapping
from typing import Any

from golden.case_types import Command
from golden.forked import Forks, import_everything, pin
from golden.spelling import OPTIONS, words_of_design

TABLE = Path(__file__).with_name("defaults.json")


def main() -> None:
    asked = arguments()
    pin(asked.repo)
    import_everything(asked.repo.resolve())
    table = listed() if asked.list else json.loads(TABLE.read_text())
    forks = Forks(asked.repo.resolve(), asked.spelling)
    try:
        made(forks.scratch)
        outcomes = {command: {run: of_run(forks, command, run, table["options"][command]) for run in runs} for command, runs in table["outcomes"].items()}  # fmt: skip
    finally:
        shutil.rmtree(forks.scratch, ignore_errors=True)
    found = {"options": table["options"], "outcomes": outcomes}
    asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What becomes of every default in every run.")
    parser.add_argument("repo", type=Path, help="root of the checkout")
    parser.add_argument("out", type=Path, help="the JSON file to write")
    parser.add_argument("--spelling", choices=("old", "new"), default="old")
    parser.add_argument("--list", action="store_true", help="runs and options of test_defaults.py")
    return parser.parse_args()


def listed() -> dict[str, Any]:
    """The runs of the test, and for each option of their commands a value."""
    from cli.test_defaults import RUNS, defaults_of

    return {
        "options": {command: dict(defaults_of(command)) for command in RUNS},
        "outcomes": {command: dict.fromkeys(runs) for command, runs in RUNS.items()},
    }


MADE = (
    "generate network --layers 12 --tokens 5 --width 8 --heads 2 -q -o net.safetensors",
    "generate maps --map sink --tokens 6 --heads 2 -q -o maps.safetensors",
)


def made(folder: Path) -> None:
    """What the runs of the test read."""
    from golden import material

    material.models(folder)
    (folder / "essays.txt").write_text("One.\n\nAnother.\n")
    forks = Forks(folder, "old")
    for line in MADE:
        assert forks.step(Command(line, line), folder, "made")["code"] == 0, line
    shutil.rmtree(forks.scratch)


def of_run(forks: Forks, command: str, run: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Of each option what becomes of its value."""
    words = [command, *run.split()]
    asked = words_of_design(words) if forks.spelling == "new" else words
    groups = 2 if asked[0] in ("reproduce", "generate") else 1
    found = {}
    for name, value in options.items():
        spelt = OPTIONS.get((asked[0], name), name) if forks.spelling == "new" else name
        (forks.scratch / "attn.toml").write_text(f"[{'.'.join(asked[:groups])}]\n{spelt} = {json.dumps(value)}\n")  # fmt: skip
        line = " ".join(["config show", *(f"'{word}'" for word in asked), "--config attn.toml"])
        found[name] = outcome(forks.step(Command(line, line), forks.scratch, "run"))
    return found


def outcome(step: Mapping[str, Any]) -> str:
    """`applies`, `left out: …`, or what was said with another exit code."""
    if step["code"]:
        return f"exit {step['code']}: {step['err'].strip()}"
    text: str = step["out"].strip()
    return text.partition("): ")[2] or text


if __name__ == "__main__":
    main()
