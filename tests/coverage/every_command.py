"""Commands on every model type of transformers, tiny and random: none ends in a bug, says what is not ours, or takes much.

    python tests/coverage/every_command.py [--types bert,gpt2] [--jobs 2] [COMMAND …]

    python tests/coverage/every_command.py "paths MODEL --sample 2" "inspect-model MODEL --pairs 3"

MODEL is the type's random model. Each runs in a process of its own, with limits on time and memory. What went wrong is
printed, one line each, and 1 is the answer if anything did.
"""

import argparse
import shlex
import sys
import tempfile
from itertools import product
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.forks import Case, ended, load_everything

COMMANDS = (
    "inspect-model MODEL --metric all --with-random-init",
    "inspect-model MODEL --pairs 2",
    "inspect-weights MODEL",
    "dispersion MODEL --lengths 4:16",
    "attribute MODEL --token -1",
    "rank-collapse MODEL",
    "rank-collapse MODEL --variants pure --exact",
    "rank-collapse MODEL --theorem --variants SAN",
    "rank-collapse MODEL --sub-blocks --metric depth",
    "rank-collapse MODEL --sweep tokens=4:16 --variants SAN",
    "paths MODEL",
    "paths MODEL --sample 1",
    "paths MODEL --by head",
    "paths MODEL --by steps",
    "sensitivity MODEL --directions 1",
    "paths MODEL --loss",
    "head-capacity MODEL --length 6",
    "head-capacity MODEL --head 0.0 --pattern window:3 --length 6",
)
PATIENCE = 60.0
"""Seconds of one processor."""


def asked(kind: str, command: str) -> list[str]:
    return [*shlex.split(command.replace("MODEL", f"random:{kind}?tiny")), "--quiet"]


def faults(arguments: list[str]) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        case = Path(folder) / "case"
        case.mkdir()
        return ended(Case(arguments), case, PATIENCE).faults


def told(task: tuple[str, str]) -> str:
    """One line, or none."""
    kind, command = task
    found = faults(asked(kind, command))
    return f"{kind}  {command}: {', '.join(found)}" if found else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--types", help="comma separated; all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("commands", nargs="*", default=COMMANDS)
    options = parser.parse_args()
    load_everything()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    kinds = options.types.split(",") if options.types else sorted(CONFIG_MAPPING_NAMES)
    wrong = 0
    with get_context("fork").Pool(options.jobs) as pool:
        for line in pool.imap_unordered(told, product(kinds, options.commands)):
            if line:
                wrong += 1
                print(line, flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
