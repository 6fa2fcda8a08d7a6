"""Engines, for real: the same table on each, and kill -9 of a worker or of the driver loses at most the items in hand."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import ATTN, attn, files_in
from processes import Process, children, environment, outcomes, started

import attncli
from attncli.errors import InputError, UsageError
from attncli.processes.engines import ENGINES, open_engine, parse_engine_options, submitit
from attncli.processes.job_sent_to_worker import Job, run_job
from attncli.processes.rank_process_launch import find_free_port

LIBRARIES = {"local:2": "json", "submitit:local": "submitit", "dask": "distributed", "ray": "ray"}
"""Engines, and what each of them needs."""
OPTIONS = {"dask": ("--engine-options", "workers=2"), "ray": ("--engine-options", "num_cpus=.5")}
SIZES = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2")
SWEEP = ("sweep", "rank-collapse", "--glob", "net-*", "--variants", "SAN", "--into", "out", "--format", "csv")  # fmt: skip
MARK = "ATTN_TEST_MARK"

HERE = [name for name, library in LIBRARIES.items() if importlib.util.find_spec(library)]

HELD = """
import os, threading
from pathlib import Path

def replace(old, new, real=os.replace):
    held = Path("held")
    if "net-2." in str(new) and os.environ.get("HOLD") and not held.exists():
        half = Path(f"half-{os.getpid()}")
        half.write_text(str(os.getpid()))
        real(half, held)
        threading.Event().wait()
    real(old, new)

os.replace = replace
"""
"""Whoever is about to finish net-2 says who it is, and stands still."""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three networks and one file that is none; every process that is started here reads HELD."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        scale = ("--init-scale", f"1.{number}")
        assert attn("generate", "network", *SIZES, *scale, "-o", f"net-{number}.safetensors").code == 0  # fmt: skip
    Path("net-4.safetensors").write_text("broken")
    Path("site").mkdir()
    Path("site/sitecustomize.py").write_text(HELD)
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        ["comment=a\ntouch was-run\n#"],
        ["comment=a\r"],
        ["partition=a", "a\x1b=b"],
        ["a=b\u2028c"],
        {"comment": "a\nb"},
    ],
    ids=repr,
)
def test_engine_options_are_one_line(options: Any) -> None:
    """Slurm's script has a line for each, and runs what stands on a line of its own."""
    for engine in ("submitit:slurm", "submitit:local", "dask", "ray", "local"):
        with pytest.raises(UsageError, match="holds a newline or another control character"):
            attncli.sweep("rank-collapse", "random:bert", engine=engine, engine_options=options)
    with pytest.raises(UsageError, match="control character"):
        open_engine("dask:tcp://host\n:1", [])


def sweep(engine: str, folder: Path, **more: str) -> Process:
    env = environment(**more)
    env["PYTHONPATH"] = f"{folder / 'site'}{os.pathsep}{env['PYTHONPATH']}"
    words = [*ATTN, *SWEEP, "--engine", engine, *OPTIONS.get(engine, ())]
    return started(words, env, folder)


def holder(folder: Path, process: Process) -> int:
    """The process that stands still."""
    while not (folder / "held").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return int((folder / "held").read_text())


def marked(mark: str) -> Iterator[int]:
    """Processes, zombies aside, that have inherited the mark."""
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            alive = "\nState:\tZ" not in (file.parent / "status").read_text()
            if alive and f"{MARK}={mark}".encode() in file.read_bytes():
                yield int(file.parent.name)


def is_talking_to_the_dead(pid: int) -> bool:
    """Whether this is one of Ray's agents: after a kill they try for a minute to tell a server of their own that is gone too."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .startswith((b"ray::DashboardAgent", b"ray::RuntimeEnvAgent"))
        )
    return False


@pytest.mark.slow
def test_the_table_is_the_same_and_kills_lose_only_what_is_in_hand(
    nets: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """On all engines at once, as each waits for most of its time."""
    folders = [tmp_path_factory.mktemp(engine.replace(":", "-")) for engine in HERE]
    for folder in folders:
        shutil.copytree(nets, folder, dirs_exist_ok=True)
    with ThreadPoolExecutor(len(HERE)) as pool:
        tables = dict(zip(HERE, pool.map(table_after_kills, HERE, folders), strict=True))
    assert tables == dict.fromkeys(HERE, attn(*SWEEP, "--engine", "local").out)
    for folder in folders:
        assert files_in(nets / "out") == files_in(folder / "out")


def table_after_kills(engine: str, nets: Path) -> str:
    """First the driver is killed, then a worker, then nobody; nothing is left of the first that could still write."""
    mark = f"{os.getpid()}-{engine}"
    driver = sweep(engine, nets, HOLD="1", **{MARK: mark})
    worker = holder(nets, driver)
    while len(list(nets.glob("out/net-[13]*.json"))) < 2:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    outcomes([driver])
    while any(not is_talking_to_the_dead(pid) for pid in marked(mark)):
        time.sleep(0.05)
    done = {path.name: path.stat().st_mtime_ns for path in nets.glob("out/[!.]*.json")}
    assert not any("net-2" in name for name in done), engine

    (nets / "held").unlink()
    driver = sweep(engine, nets, HOLD="1")
    os.kill(holder(nets, driver), signal.SIGKILL)
    ((code, out, err),) = outcomes([driver])
    assert code == 4, (engine, err)
    lost, broken = (line for line in err.splitlines() if "FAIL" in line)
    assert "net-2.safetensors" in lost
    assert "(exit 4: its " in lost
    assert "was lost (" in lost
    assert "net-4.safetensors  (exit 3: net-4.safetensors cannot be read" in broken
    assert len(out.splitlines()) == 5, f"{engine}: a null for each of the two"
    now = {path.name: path.stat().st_mtime_ns for path in nets.glob("out/[!.]*.json")}
    assert len(now) == 2, engine
    assert done.items() <= now.items(), f"{engine}: a finished item was run again"

    ((code, out, err),) = outcomes([sweep(engine, nets)])
    assert (code, err.count("\n")) == (3, 1), engine
    after = {path.name: path.stat().st_mtime_ns for path in nets.glob("out/[!.]*.json")}
    assert len(after) == 3, engine
    assert now.items() <= after.items(), f"{engine}: a finished item was run again"
    return out


SLURM = {
    "sbatch": """
        cp "$1" script  # as Slurm does: submitit moves its own away after this
        for index in 0 2 3; do
            touch alive/77_$index
            (SLURM_JOB_ID=$((78 + index)) SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=$index SLURM_NTASKS=1 SLURM_NODEID=0 \\
            SLURM_JOB_NUM_NODES=1 SLURM_PROCID=0 SLURM_LOCALID=0 bash script > /dev/null 2>&1; rm alive/77_$index) > /dev/null 2>&1 &
        done
        echo Submitted batch job 77""",
    "srun": 'while [ "$1" != -u ]; do program="$1"; shift; done; exec "$program" "$@"',
    "squeue": '[ "$SQUEUE_FORMAT$SQUEUE_PARTITION" = %i ] && ls alive',
    "sacct": "echo Slurm accounting storage is disabled >&2; touch sacct-was-asked; exit 1",
    "scancel": "exit 0",
}
"""A Slurm without accounting that runs an array at once, but for its second job, which is killed before it says a word."""


@pytest.fixture
def slurm(nets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("submitit")
    for name in ("bin", "alive"):
        (nets / name).mkdir()
    for name, script in SLURM.items():
        program = nets / "bin" / name
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)
    path = os.pathsep.join([str(nets / "bin"), os.environ["PATH"]])
    monkeypatch.setattr(commands, "PLAIN", {**commands.PLAIN, "PATH": path})
    monkeypatch.setattr(submitit, "ASKED", 0.1)
    monkeypatch.setattr(submitit, "PATIENCE", 1.0)
    return nets


@pytest.mark.slow
def test_a_job_that_slurm_forgets_is_lost(slurm: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without accounting nobody else says so; the rest is measured, and Slurm's own words are not passed on."""
    outcome = attn(*SWEEP, "--engine", "submitit:slurm")
    assert outcome.code == 4, outcome.err
    lost, broken = (line for line in outcome.err.splitlines() if "FAIL" in line)
    assert "net-2.safetensors  (exit 4: its worker was lost (LookupError: Slurm no longer knows job 77_1, and it left no result" in lost  # fmt: skip
    assert "net-4.safetensors  (exit 3: net-4.safetensors cannot be read" in broken
    assert len(list(slurm.glob("out/*.json"))) == 2
    assert len(outcome.err.splitlines()) == 2 + outcome.err.count("warning")
    assert capfd.readouterr() == ("", "")
    assert not (slurm / "sacct-was-asked").exists()


def test_a_queue_that_does_not_answer_loses_nobody(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that answers again in time: a controller may be started anew, a network's folder be late."""
    monkeypatch.setenv("PATH", commands.PLAIN["PATH"])
    monkeypatch.setattr(submitit, "ASKED", 0.0)
    monkeypatch.setattr(submitit, "PATIENCE", 0.0)
    monkeypatch.setenv("SQUEUE_PARTITION", "another")
    queue = submitit.SlurmQueue()
    assert queue.has_lost_job("77_1")
    (slurm / "alive/77_1").touch()
    assert not queue.has_lost_job("77_1")
    (slurm / "bin/squeue").write_text("#!/bin/sh\nexit 1\n")
    (slurm / "alive/77_1").unlink()
    assert not queue.has_lost_job("77_1")
    (slurm / "bin/squeue").unlink()
    monkeypatch.setenv("PATH", str(slurm / "bin"))
    assert not queue.has_lost_job("77_1")
    (slurm / "bin/squeue").write_text("#!/bin/sh\n")
    (slurm / "bin/squeue").chmod(0o755)
    monkeypatch.setattr(submitit, "PATIENCE", 60.0)
    assert not queue.has_lost_job("77_1")


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def one_of(pid: int, name: str) -> int:
    """The process below this one that runs the program."""
    while True:
        for each in descendants(pid):
            with suppress(OSError):
                if name in Path(f"/proc/{each}/cmdline").read_text().replace("\0", " "):
                    return each
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs distributed")
def test_a_scheduler_of_dask_that_is_killed_is_one_sentence(nets: Path) -> None:
    port = find_free_port()
    env = environment(HOLD="1")
    env["PYTHONPATH"] = f"{nets / 'site'}{os.pathsep}{env['PYTHONPATH']}"
    python = (sys.executable, "-m")
    scheduler = started([*python, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], env, nets)  # fmt: skip
    worker = started([*python, "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--no-dashboard"], env, nets)  # fmt: skip
    await_port(port)
    driver = sweep(f"dask:tcp://127.0.0.1:{port}", nets)
    holder(nets, driver)
    scheduler.kill()
    ((code, out, err),) = outcomes([driver])
    outcomes_of_the_rest([scheduler, worker])
    assert (code, out) == (4, "")
    assert err == "attn: the scheduler of dask was lost: finished items are kept, run the same command again.\n"  # fmt: skip


def await_port(port: int) -> None:
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def outcomes_of_the_rest(processes: list[Process]) -> None:
    for each in processes:
        each.kill()
    outcomes(processes)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_a_cluster_of_ray_that_is_killed_is_one_sentence(nets: Path) -> None:
    """Its client ends the process that it is in, after some seconds, with the code of a gate that failed."""
    driver = sweep("ray", nets, HOLD="1", RAY_gcs_rpc_server_reconnect_timeout_s="2")
    holder(nets, driver)
    os.kill(one_of(driver.pid, "gcs_server"), signal.SIGKILL)
    ((code, out, err),) = outcomes([driver])
    assert (code, out) == (4, "")
    assert err == "attn: ray's cluster was lost: finished items are kept, run the same command again.\n"  # fmt: skip


@pytest.mark.slow
def test_ctrl_c_stops_the_workers(nets: Path) -> None:
    mark = f"{os.getpid()}-interrupted"
    driver = sweep("local:2", nets, HOLD="1", **{MARK: mark})
    holder(nets, driver)
    driver.send_signal(signal.SIGINT)
    ((code, out, err),) = outcomes([driver])
    assert (code, out, err) == (130, "", "attn: interrupted.\n")
    assert not list(marked(mark))


@pytest.mark.slow
def test_two_drivers_in_one_folder_do_no_harm(nets: Path) -> None:
    first, second = outcomes([sweep("local:2", nets), sweep("local:2", nets)])
    assert first == second
    assert first[0] == 3
    assert len(files_in(nets / "out")) == 3


def test_a_share_of_the_memory_is_all_that_a_worker_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from attncli import resource_limits
    from attncli.processes.engines import local
    from attncli.processes.engines.local import divide_cores_and_memory

    assert (resource_limits.free_memory() or 0) > 0
    monkeypatch.setattr(local, "free_memory", lambda: 1001)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert resource_limits.MEMORY not in divide_cores_and_memory(1)
    half = divide_cores_and_memory(2)
    assert int(half[resource_limits.MEMORY]) == 500
    assert int(half["OMP_NUM_THREADS"]) == max(1, (os.cpu_count() or 1) // 2)
    monkeypatch.setenv(resource_limits.MEMORY, "1000")
    monkeypatch.setattr(resource_limits, "process_memory", lambda: 0)
    assert resource_limits.available_memory() == 1000
    monkeypatch.setattr(resource_limits, "process_memory", lambda: 400)
    assert resource_limits.available_memory() == 600
    monkeypatch.setattr(resource_limits, "process_memory", lambda: 4000)
    assert resource_limits.available_memory() == 0


def job(folder: Path, *words: str, **settings: str) -> Job:
    return Job(0, words, str(folder / "r.json"), str(folder), settings)


@pytest.mark.slow
def test_a_warm_run_is_a_run(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder and settings are those of whoever asked; afterwards this process is as it was."""
    monkeypatch.setenv("ATTN_RANK_COLLAPSE_SEEDS", "7")
    monkeypatch.setenv("RANK", "1")
    before, here = dict(os.environ), os.getcwd()
    os.chdir("/")
    run = run_job(
        job(nets, "rank-collapse", "net-1.safetensors", ATTN_RANK_COLLAPSE_VARIANTS="SAN")
    )
    assert (run.code, Path.cwd(), dict(os.environ)) == (0, Path("/"), before)
    os.chdir(here)
    found = attncli.read(nets / "r.json")
    assert {row.variant for row in found.rows} == {"SAN"}
    broken = run_job(job(nets, "rank-collapse", "net-4.safetensors"))
    assert broken.code == 3
    assert broken.sentence.startswith("net-4.safetensors cannot be read")
    assert run_job(job(nets, "rank-collapse", "--laers", "3")).code == 2


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("locl", (), "did you mean 'local'"),
        ("local:x", (), "write how many workers"),
        ("local:0", (), "write how many workers"),
        ("local", ("a=1",), "the engine 'local' takes none"),
        ("torchrun", (), "takes the processes that there are"),
        ("submitit:here", (), "write submitit, submitit:slurm or submitit:local"),
        ("dask:tcp://x", ("workers=2",), "leave it out"),
        ("ray", ("gpu=1",), "takes num_cpus, num_gpus, memory"),
        ("ray", ("num_gpus=a",), "it must be a number"),
        ("local", ("a",), "write name=value"),
        ("local", ("a=1,a=2",), "gives a twice"),
    ],
)
def test_what_an_engine_cannot_do_is_refused_before_the_work(
    text: str, options: tuple[str, ...], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        open_engine(text, options)


def test_an_engine_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name in ("submitit", "distributed", "ray"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    for engine, extra in (("submitit", "slurm"), ("dask", "dask"), ("ray", "ray")):
        with pytest.raises(UsageError, match=rf"pip install 'attncli\[{extra}\]'"):
            open_engine(engine, ())


def test_engines_are_listed_and_all_are_tested() -> None:
    listed = attn("list", "engines").out
    assert all(f"  {name} " in listed for name in ENGINES.names())
    assert {name.partition(":")[0] for name in LIBRARIES} == set(ENGINES.names()) - {"torchrun"}
    assert parse_engine_options(["partition=a,timeout_min=60", "gpu=.5"]) == {"partition": "a", "timeout_min": 60, "gpu": 0.5}  # fmt: skip


@pytest.mark.slow
def test_items_for_other_tools_and_their_reports_collected(nets: Path) -> None:
    os.unlink("net-4.safetensors")
    told = attn(*SWEEP[:-2], "--list-items", "--format", "jsonl")
    items = [json.loads(line) for line in told.out.splitlines()]
    assert [(item["item"], item["step"], item["done"]) for item in items] == [(f"net-{n}.safetensors", n, False) for n in (1, 2, 3)]  # fmt: skip
    assert attn(*SWEEP[:-2], "--list-items").out.splitlines() == [item["line"] for item in items]
    for item in items:
        assert attn(*item["command"][1:]).code == 0
    collected = attn("sweep", "--collect", "out", "--format", "csv")
    swept = attn(*SWEEP)
    assert (collected.code, collected.out) == (0, swept.out)
    assert json.loads(attn(*SWEEP[:-2], "--list-items", "--format", "jsonl").out.splitlines()[0])[
        "done"
    ]
    os.unlink(items[1]["report"])
    some = attn(*SWEEP, "--collect", "out")
    assert some.code == 3
    assert "FAIL  net-2.safetensors  (there is no report of it)" in some.err
    assert attn("sweep", "--collect", "nowhere").code == 3
    assert attn(*SWEEP, "--list-items").code == 2


@pytest.mark.slow
def test_reports_at_an_address(nets: Path) -> None:
    """By fsspec, here to files; what workers write is there whole or not at all."""
    os.unlink("net-4.safetensors")
    address = f"file://{nets}/far/away"
    words = tuple(address if word == "out" else word for word in SWEEP)
    there = attn(*words)
    assert there.code == 0, there.err
    assert len(files_in(nets / "far/away")) == 3
    done = {path: path.stat().st_mtime_ns for path in (nets / "far/away").iterdir()}
    assert (
        attn(*words).out == there.out == attn("sweep", "--collect", address, "--format", "csv").out
    )
    assert done == {path: path.stat().st_mtime_ns for path in (nets / "far/away").iterdir()}
    assert attn(*words, "--list-items").code == 2
    unknown = attn(*(word.replace("file://", "nothing://") for word in words))
    assert (unknown.code, "cannot be reached" in unknown.err) == (2, True)


def test_addresses_hold_a_file_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    from attncli.commands.utilities.sweep.swept_models import (
        list_report_files,
        read_report_if_complete,
    )
    from attncli.io.remote_files import read_remote_file, remove_remote_file, write_remote_file

    place = "memory://sweep/a/net-1.json"
    assert read_remote_file(place) is None
    assert list_report_files("memory://sweep/a") == []
    write_remote_file(place, b"{}")
    write_remote_file("memory://sweep/a/net-10.json", b"{}")
    write_remote_file("memory://sweep/a/net-9.json", b"{}")
    assert read_remote_file(place) == b"{}"
    assert read_report_if_complete(place) is None, "no whole report"
    assert [name.rpartition("/")[2] for name in list_report_files("memory://sweep/a")] == ["net-1.json", "net-9.json", "net-10.json"]  # fmt: skip

    def fails(self: Any, *rest: Any, **more: Any) -> None:
        raise OSError("the line is cut")

    monkeypatch.setattr(MemoryFileSystem, "mv", fails)
    with pytest.raises(InputError, match="the line is cut"):
        write_remote_file(place, b"[]")
    assert read_remote_file(place) == b"{}"
    assert len(list_report_files("memory://sweep/a")) == 3
    monkeypatch.undo()
    remove_remote_file(place)
    assert read_remote_file(place) is None


@pytest.mark.slow
def test_a_sweep_from_python_is_the_sweep_of_the_command(nets: Path) -> None:
    os.unlink("net-4.safetensors")
    wanted = attn(*SWEEP)
    assert wanted.code == 0
    done = {path: path.stat().st_mtime_ns for path in (nets / "out").iterdir()}
    found = attncli.sweep("rank-collapse", glob="net-*", variants="SAN", into="out", engine="local")
    assert found.text("csv") == wanted.out
    assert done == {path: path.stat().st_mtime_ns for path in (nets / "out").iterdir()}, "the same digests"  # fmt: skip
    assert attncli.sweep(collect="out").text("csv") == wanted.out
    Path("pyproject.toml").write_text("[tool.attn.rank-collapse]\nmetric = ['stable_rank']\n")
    measured = attncli.sweep("rank-collapse", "net-1.safetensors", variants=["SAN", "SAN+skip"])
    assert {row.metric for row in measured.rows} == {"log10_residual"}, "keywords alone count"
    with pytest.raises(UsageError, match="unknown keyword of rank-collapse 'varants'"):
        attncli.sweep("rank-collapse", "net-1.safetensors", varants="SAN")
    with pytest.raises(UsageError, match="unknown command to sweep"):
        attncli.sweep("check", "net-1.safetensors")


def test_models_in_a_file(nets: Path) -> None:
    Path("names.txt").write_text("net-3.safetensors  # the last\n\n# none\nnet-1.safetensors\n")
    words = ("sweep", "rank-collapse", "--models-file", "names.txt", "--list-items")
    assert [line.split()[2] for line in attn(*words).out.splitlines()] == ["net-3.safetensors", "net-1.safetensors"]  # fmt: skip
    missing = attn("sweep", "rank-collapse", "--models-file", "none.txt")
    assert (missing.code, "--models-file none.txt cannot be read" in missing.err) == (2, True)


def test_evicted_is_what_was_downloaded_for_this(
    nets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never what the cache held before, and nothing that is no model of the hub."""
    from attncli.commands.utilities.sweep import resumable_runs
    from attncli.models.files import hub_cache

    removed: list[str] = []
    monkeypatch.setattr(hub_cache, "is_model_in_hub_cache", lambda name: name == "org/held")
    monkeypatch.setattr(hub_cache, "remove_model_from_hub_cache", removed.append)
    held: set[str] = set()
    for name in ("org/held", "org/fresh@step1", "net-1.safetensors", "random:bert"):
        resumable_runs.remember_models_already_cached(name, held)
        resumable_runs.evict_cached_model(name, held)
    assert removed == ["org/fresh"]
