"""How much of the package one run walks through. Run: python tests/bench/walks.py [COMMAND …]

For each command line, in a fresh interpreter:

functions   of the package that were called; what runs while a module is imported is left out, as are comprehensions,
            lambdas and class bodies
files       that these functions stand in
modules     of the package that were imported, and how many of them are idle: none of their functions ran
front       functions and files before the first function of the question's own code
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attncli

PACKAGE = str(Path(attncli.__file__).parent)

LINES = (
    "rank-collapse",
    "rank-collapse random:bert",
    "inspect-model random:bert",
    "approximate --pattern window:3",
    "check r.json",
)
"""The command lines that are compared over time; `r.json` is a report that is made first."""

OWN = ("commands/", "studies/", "gates/")
"""Where a question's own code begins."""
SHARED = ("commands/__init__.py",)


class Walk:
    """Counts calls, but for those that importing a module makes."""

    def __init__(self) -> None:
        self.importing = 0
        self.called: dict[CodeType, None] = {}
        self.before_own: set[CodeType] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name == "<module>":
            self.importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self.importing and not is_inner(code):
            self.note(code)

    def note(self, code: CodeType) -> None:
        if self.before_own is None and is_own(code):
            self.before_own = set(self.called)
        self.called[code] = None


def is_inner(code: CodeType) -> bool:
    """A comprehension, a lambda or a class body."""
    return code.co_name.startswith("<") or not code.co_flags & 0x2  # CO_NEWLOCALS: functions alone


def is_own(code: CodeType) -> bool:
    inside = code.co_filename.removeprefix(f"{PACKAGE}/")
    return inside.startswith(OWN) and not inside.startswith(SHARED)


def files_of(codes: Any) -> set[str]:
    return {code.co_filename for code in codes}


def walk_here(arguments: list[str]) -> dict[str, int]:
    """Run one command line in this process, and count."""
    from attncli.cli.main import run_command_line, set_environment_variables

    set_environment_variables()
    walk = Walk()
    sys.setprofile(walk)
    run_command_line(arguments)
    sys.setprofile(None)
    imported = [name for name in sys.modules if name.startswith("attncli")]
    walked = files_of(walk.called)
    idle = [name for name in imported if is_idle(sys.modules[name], walked)]
    front = walk.before_own or set()
    return {
        "functions": len(walk.called),
        "files": len(walked),
        "modules": len(imported),
        "idle": len(idle),
        "front_functions": len(front),
        "front_files": len(files_of(front)),
    }


def is_idle(module: Any, walked: set[str]) -> bool:
    """Whether it has functions of its own and none of them ran."""
    path = getattr(module, "__file__", None) or ""
    own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]  # fmt: skip
    return bool(own) and path not in walked


def walk_apart(line: str, folder: str) -> dict[str, int]:
    """The same in an interpreter of its own."""
    command = [sys.executable, __file__, "--here", *line.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{line}: {done.stderr}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = ["rank-collapse", "--layers", "2", "--seeds", "1", "-o", "r.json", "-q"]
        subprocess.run([sys.executable, "-m", "attncli", *report], cwd=folder, check=True)
        print(f"{'':34}functions  files  modules  idle  front")
        for line in lines or LINES:
            walk = walk_apart(line, folder)
            front = f"{walk['front_functions']} in {walk['front_files']}"
            print(f"{line:34}{walk['functions']:9}{walk['files']:7}{walk['modules']:9}{walk['idle']:6}  {front}", flush=True)  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(walk_here(sys.argv[2:])))
    else:
        main(sys.argv[1:])
