"""What every exit code means, and the sentence that comes with it."""

import contextlib
import errno
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from commands import ATTN, ONE, PLAIN, SMALL, attn, attn_program, files_in

import attncli.cli.app  # noqa: F401  (it enrols the commands)
from attncli import resource_limits
from attncli.cli.command_tree import iterate_commands, root_command

SAN_FALLS = "log10_residual[SAN, layer=-1] < -0.01"
NEVER = "log10_residual > 1e6"


def test_0_and_nothing_on_stderr() -> None:
    outcome = attn("rank-collapse", *SMALL)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.startswith("SAN")


@pytest.mark.parametrize(
    ("gates", "code"),
    [((SAN_FALLS,), 1), ((NEVER,), 0), ((NEVER, SAN_FALLS), 1), ((NEVER, NEVER), 0)],
)
@pytest.mark.parametrize("format", ["table", "markdown", "json", "csv"])
def test_1_is_the_verdict_that_is_printed(gates: tuple[str, ...], code: int, format: str) -> None:
    options = [part for gate in gates for part in ("--fail-if", gate)]
    outcome = attn("rank-collapse", *SMALL, *options, "--format", format)
    assert outcome.code == code
    told = outcome.out if format in ("table", "markdown") else outcome.err
    mark = "❌" if format == "markdown" else "FAIL  "
    assert told.count(mark) == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rank-colapse"], "Did you mean 'rank-collapse'?"),
        (["rank-collapse", "--laers", "3"], "no such option: --laers: did you mean --layers?"),
        (
            ["rank-collapse", "--num_layers", "3"],
            "no such option: --num_layers: did you mean --layers?",
        ),
        (["rank-collapse", "--no-skp"], "no such option: --no-skp: did you mean --no-skip?"),
        (["rank-collapse", "--sequence-length", "3"], "--sequence-length: did you mean --tokens?"),
        (["approximate", "--tokens", "3"], "no such option: --tokens: did you mean --length?"),
        (["approximate", "-d", "3"], "no such option: -d: did you mean --width?"),
        (["approximate", "--exact"], "no such option: --exact (see `attn approximate --help`)."),
        (["inspect-model", "--model", "./x"], "--model: SOURCE is an argument, not an option"),
        (["inspect-model", "--prompt", "Hi"], "no such option: --prompt: did you mean --text?"),
        (["version"], "no such command 'version': did you mean --version?"),
        (["help"], "no such command 'help': did you mean --help?"),
        (["rank-collapse", "--layers"], "requires an argument"),
        (["rank-collapse", "--layers", "x"], "invalid value for '--layers'"),
        (["rank-collapse", "--layers", "0"], "--layers must be from 1 to 1,000,000,000, not 0."),
        (["rank-collapse", "--tokens", "-4"], "--tokens must be from 1 to 1,000,000,000, not -4."),
        (["rank-collapse", "--seeds", "0"], "--seeds from 1 to"),
        (["rank-collapse", "--seed", "-1"], "--seed must be from 0 to"),
        (["rank-collapse", "--init-scale", "nan"], "--init-scale must be from 1e-100 to"),
        (["rank-collapse", "--width", "10"], "--heads 4 does not divide --width 10"),
        (["rank-collapse", "--positions", "rope", "--key-width", "3"], "must be even"),
        (["rank-collapse", "--metric", "stable_rnk"], "did you mean 'stable_rank'?"),
        (["rank-collapse", "--variants", "SAM"], "did you mean 'SAN'?"),
        (["rank-collapse", "--norm", "laer"], "did you mean 'layer'?"),
        (["rank-collapse", "--mask", "window"], "window:W"),
        (["rank-collapse", "--attention", "sinkhorn", "--mask", "causal"], "needs --mask none"),
        (["rank-collapse", "--format", "jsn"], "did you mean 'json'?"),
        (["rank-collapse", "--no-skip", "--variants", "SAN"], "not both"),
        (["rank-collapse", "--no-mlp", "--mlp-skip"], "drop one of them"),
        (["rank-collapse", "--fail-if", "log10_residul < 3"], "did you mean 'log10_residual'?"),
        (["rank-collapse", "--fail-if", "order"], "write it like"),
        (["rank-collapse", *ONE, "--fail-if", "order[SAM] < 3"], "there are SAN, SAN+MLP"),
        (["rank-collapse", "--sweep", "layer=2:8"], "tokens, heads, width, layers, init-scale"),
        (["rank-collapse", "--sweep", "tokens=8:2"], "the range must go up"),
        (["rank-collapse", "--sweep", "tokens=2:8", "--tokens", "3"], "leave it out"),
        (["rank-collapse", "--plot=x.jpg"], "must end in .png, .svg or .pdf"),
        (["generate", "netwrk"], "Did you mean 'network'?"),
        (["generate", "maps", "-o", "x.safetensors"], "--map"),
        (["generate", "maps", "--map", "unifrm", "-o", "x.safetensors"], "did you mean 'uniform'?"),
        (["generate", "maps", "--map", "window:0", "-o", "x.safetensors"], "size must be"),
        (
            ["generate", "maps", "--map", "iid", "--tokens", "0", "-o", "x.safetensors"],
            "at least 1",
        ),
        (["list", "metrcs"], "did you mean 'metrics'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_2_is_a_usage_error_and_says_what_would_do(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = attn(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("attn: ")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err
    assert not files_in(tmp_path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("net.safetensors", "there is no file net.safetensors"),
        ("./nowhere", "there is no folder ./nowhere"),
        (".", ". has no config.json"),
        ("/dev/null", "there is no folder /dev/null"),
        ("no-such/model", "no-such/model is not in the cache and the hub was not asked"),
    ],
)
def test_3_is_an_input_that_cannot_be_analysed(source: str, said: str, tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        outcome = attn("rank-collapse", source, *["--offline"] * ("/model" in source))
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith(f"attn: {said}")


def test_3_is_also_a_network_that_leaves_float_range() -> None:
    outcome = attn("rank-collapse", *ONE, "--init-scale", "1e100")
    assert outcome.code == 3
    assert "leave float range (above 1e300): lower --init-scale or add a --norm." in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["rank-collapse"],
        ["generate", "maps", "--map", "iid", "-o", "x.safetensors"],
        ["generate", "network", "-o", "x.safetensors"],
    ],
)
def test_4_is_said_before_the_work(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 1 kB\n")
    monkeypatch.setattr(resource_limits, "MEMINFO", tmp_path / "meminfo")
    outcome = attn(*arguments)
    assert (outcome.code, outcome.out) == (4, "")
    assert "GiB are free: lower --" in outcome.err
    assert files_in(tmp_path) == ["meminfo"]


def test_4_is_also_memory_that_runs_out_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(
        "attncli.analysis.rank_collapse.network_collapse.run_network_in_all_variants", exhausted
    )
    outcome = attn("rank-collapse", *ONE)
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.startswith("attn: out of memory: choose")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds", "99999999999999999999"],
        ["--layers", "99999999999999999999999"],
        ["--tokens", "99999999999999999999999"],
        ["--width", "4" + 23 * "0"],
        ["--layers", "1", "--mask", "window:99999999999999999999999"],
    ],
    ids=" ".join,
)
def test_numbers_beyond_every_machine_are_refused_or_do_no_harm(arguments: list[str]) -> None:
    assert attn("rank-collapse", *arguments).code in (0, 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("rank-collapse", "--sweep", "tokens=1:1000000"),
        ("approximate", "--length", "1000000"),
        ("approximate", "--sweep", "length=16:1000000"),
    ],
)
def test_what_would_take_days_is_refused_before_its_first_number(
    arguments: tuple[str, ...],
) -> None:
    """Though some of its sizes are small."""
    outcome = attn(*arguments)
    assert (outcome.code, outcome.out) == (4, "")
    assert "days of work" in outcome.err


@pytest.mark.slow
def test_a_sweep_with_too_many_steps_is_refused_before_it_fills_memory() -> None:
    """Killed after some seconds of computing where it is not."""
    with subprocess.Popen(
        [*ATTN, "rank-collapse", *ONE, "--sweep", "width=4:8:99999999999"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=limited_memory,
        env=PLAIN,
    ) as process:
        assert process.wait() == 2


def limited_memory() -> None:
    """And limited CPU time, which other work on the machine does not take."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        ["--tokens", "1", "--width", "8"],
        ["--width", "1", "--heads", "1"],
        ["--tokens", "1", "--width", "1", "--heads", "1", "--layers", "1"],
        ["--layers", "1", "--seeds", "1"],
        ["--key-width", "1", "--heads", "3", "--width", "7"],
        ["--layers", "700", "--variants", "SAN", "--width", "8", "--tokens", "5", "--seeds", "1"],
        ["--init-scale", "1e-100"],
        ["--mask", "window:1"],
        ["--sweep", "tokens=1:4"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("format", ["table", "json"])
def test_odd_sizes_are_sizes(sizes: list[str], format: str) -> None:
    layers = [] if {"--sweep", "--layers"} & set(sizes) else ["--layers", "3"]
    seeds = [] if "--seeds" in sizes else ["--seeds", "2"]
    outcome = attn("rank-collapse", *layers, *seeds, *sizes, "--format", format)
    assert (outcome.code, outcome.err) == (0, "")


TELLING = """
import signal
from attncli.analysis.rank_collapse import network_collapse

def measure(*given):
    print("at work", flush=True)
    signal.pause()

network_collapse.run_networks_in_all_variants = measure
from attncli.cli.main import main
main()
"""
"""The program, but that it says when its work begins, and never ends it."""


@pytest.mark.slow
def test_130_is_an_interrupt_and_leaves_no_partial_file(tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_text("before")
    command = [sys.executable, "-c", TELLING, "rank-collapse", "-o", str(tmp_path / "kept.json")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=PLAIN,
        preexec_fn=interruptible,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err == "attn: interrupted.\n"
    assert files_in(tmp_path) == ["kept.json"]
    assert (tmp_path / "kept.json").read_text() == "before"


def interruptible() -> None:
    """Also where the tests themselves run in the background, with interrupts ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


LINES = {
    ("approximate",): (),
    ("check",): ("r.json",),
    ("ci",): (),
    ("compare",): ("a.json", "b.json"),
    ("config", "show"): (),
    ("generate", "maps"): ("--map", "sink", "-o", "m.safetensors"),
    ("generate", "network"): ("-o", "n.safetensors"),
    ("guide",): (),
    ("inspect-model",): ("./model",),
    ("inspect-weights",): ("./model",),
    ("inspect-maps",): ("maps.npy",),
    ("dispersion",): ("./model", "--lengths", "4:8"),
    ("attribute",): ("./model", "--token", "0"),
    ("count-paths",): (),
    ("sensitivity",): ("./model",),
    ("head-capacity",): ("./model",),
    ("verify-fit",): ("fit.safetensors",),
    ("reproduce", "circle"): (),
    ("reproduce", "memorise"): (),
    ("reproduce", "sort"): (),
    ("reproduce", "convex-hull"): (),
    ("reproduce", "rank-heads"): (),
    ("list",): (),
    ("paths",): (),
    ("rank-collapse",): (),
    ("sweep",): ("rank-collapse",),
}
"""What each command cannot do without."""
LIMITED = "out of memory: choose smaller sizes."
FAILURES: list[tuple[Exception, int, str]] = [
    (MemoryError(), 4, LIMITED),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), 4, LIMITED),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), 4, LIMITED),
    (ImportError("libtorch_cpu.so: failed to map segment from shared object"), 4, LIMITED),
    (OSError(errno.EMFILE, "Too many open files"), 4, "the system refuses what this run needs: too many open files."),
    (OSError(errno.EMFILE, "Too many open files", "w.bin"), 3, "w.bin cannot be used: too many open files."),
    (OSError(errno.ENOSPC, "No space left on device", "w.bin"), 4, "w.bin cannot be used: no space left on device."),
    (OSError(errno.EIO, "Input/output error"), 3, "the system refuses what this run needs: input/output error."),
    (FileNotFoundError("No such file or directory: w.safetensors"), 3, "No such file or directory: w.safetensors."),
    (RuntimeError("unable to open file <w.bin> in read-only mode: Too many open files (24)"), 3, "unable to open file <w.bin> in read-only mode: Too many open files (24)."),
    (KeyError("allocate"), 70, "KeyError: 'allocate'. This is a bug in attn: --debug shows where."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "error", "code", "said"),
    [(path, *failure) for turn, path in enumerate(LINES) for failure in FAILURES[turn % 3 :: 3]],
    ids=lambda value: str(value)[:40],
)
def test_what_the_system_does_not_give_is_told_of_what_it_was_for(
    path: tuple[str, ...], error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every command, the errors by turns: what was read, or memory; of stdout nobody speaks but who writes there."""
    failing = mock.Mock(side_effect=error)
    monkeypatch.setattr("attncli.cli.config.settings.resolve_option_settings", failing)
    outcome = attn(*path, *LINES[path])
    assert (outcome.code, outcome.out, outcome.err) == (code, "", f"attn: {said}\n")
    shown = attn(*path, *LINES[path], "--debug")
    assert (shown.code, shown.out) == (code, "")
    assert shown.err.startswith("Traceback")
    assert shown.err.endswith(f"attn: {said}\n")


def test_every_command_is_in_this_law() -> None:
    assert {path for path, _ in iterate_commands(root_command(), ())} == set(LINES)


@pytest.mark.slow
@pytest.mark.parametrize("line", [("--version",), ("--help",), ("paths", "-h"), ("ci", "--help-all"), ("generate",), ("list", "formats")], ids=" ".join)  # fmt: skip
def test_what_cannot_be_written_to_stdout_says_so(line: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        done = attn_program(*line, stdout=full)
    assert (done.returncode, done.stderr) == (4, "attn: cannot write to stdout: the disk is full.\n")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (("list", "formats"), 0),
        (("rank-collapse", *ONE, "--fail-if", SAN_FALLS), 1),
        (("rank-collapse", "--layers", "0"), 2),
        (("rank-collapse", "--layers", "x"), 2),
        (("rank-collapse", "./nothing"), 3),
        (("approximate", "--length", "1000000"), 4),
        (("check", "report.json", "--baseline", "none.json", "--fail-on", "order:1"), 5),
    ],
)
def test_debug_keeps_the_exit_code(
    line: tuple[str, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 would say that a gate failed."""
    monkeypatch.chdir(tmp_path)
    assert attn("rank-collapse", *ONE, "-q", "-o", "report.json").code == 0
    plain = attn(*line)
    for words in ((*line, "--debug"), ("--debug", *line)):
        shown = attn(*words)
        assert (shown.code, shown.out) == (plain.code, plain.out) == (code, plain.out)
        assert shown.err.endswith(plain.err)


@pytest.mark.slow
def test_debug_shows_where_an_error_comes_from() -> None:
    for arguments in (
        ["--debug", "rank-collapse", "./nothing"],
        ["rank-collapse", "./nothing", "--debug"],
    ):
        process = attn_program(*arguments)
        assert process.stderr.startswith("Traceback")
        assert "InputError: there is no folder ./nothing" in process.stderr
    assert "Traceback" not in attn_program("rank-collapse", "./nothing").stderr
