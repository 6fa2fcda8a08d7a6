"""Where reports and files go: whole or not at all, and the same bytes every time.

Special files are reached through links in a folder of the test's own, so that code which replaces its target instead of
writing to it breaks the link and not the device.
"""

import json
import os
import resource
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from commands import ONE, SMALL, attn, attn_program, files_in
from safetensors.numpy import load, load_file

REPORT = ("rank-collapse", *ONE)
MAPS = ("generate", "maps", "--map", "uniform", "--tokens", "4")
NETWORK = ("generate", "network", "--layers", "1", "--tokens", "2", "--width", "4")
COMMANDS = pytest.mark.parametrize(
    "command", [REPORT, MAPS, NETWORK], ids=["report", "maps", "network"]
)


def called(command: tuple[str, ...], name: str = "out") -> str:
    """With the ending that the command's files have."""
    return f"{name}.txt" if command is REPORT else f"{name}.safetensors"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@COMMANDS
def test_the_file_is_written_and_nothing_beside_it(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    out = called(command)
    outcome = attn(*command, "-o", out)
    assert (outcome.code, outcome.out) == (0, "")
    assert files_in(tmp_path) == [out]
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith(f"→ {out}\n")


@COMMANDS
def test_a_new_file_has_the_permissions_of_a_new_file(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "usual").touch()
    out = called(command)
    attn(*command, "-o", out)
    usual, ours = (stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", out))
    assert oct(ours) == oct(usual)


@COMMANDS
@pytest.mark.parametrize("target", ["no/such/folder/x", ".", "file/x", "", "x" * 300])
def test_what_cannot_be_written_is_refused_before_the_work(
    command: tuple[str, ...], target: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    # This network fails in its first layer: a complaint about it would mean that the work had begun.
    extra = ["--init-scale", "1e300"] if command is REPORT else []
    outcome = attn(*command, *extra, "-o", target)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("attn: cannot write ")
    assert outcome.err.count("\n") == 1
    assert files_in(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@COMMANDS
def test_an_unwritable_folder_is_a_usage_error(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    outcome = attn(*command, "-o", "locked/x")
    assert outcome.code == 2
    assert "permission denied" in outcome.err


@pytest.mark.slow
@COMMANDS
def test_a_full_disk_is_4_and_keeps_the_file_that_was_there(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    out = called(command)
    (tmp_path / out).write_text("before")
    process = attn_program(*command, "-o", out, env=UNCOMPILED, preexec_fn=limited_file_size)
    assert process.returncode == 4
    assert process.stderr == f"attn: cannot write {out}: the disk is full.\n"
    assert files_in(tmp_path) == [out]
    assert (tmp_path / out).read_text() == "before"


@pytest.mark.slow
def test_a_full_disk_under_a_figure_is_4(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    process = attn_program(*REPORT, "--plot", "x.svg", env=UNCOMPILED, preexec_fn=limited_file_size)
    assert process.returncode == 4
    assert process.stderr.endswith("attn: cannot write x.svg: the disk is full.\n")
    assert process.stdout == ""
    assert files_in(tmp_path) == []


UNCOMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
"""What Python keeps of a file that it has compiled would be cut off as well, and stay so."""


def limited_file_size() -> None:
    """No file of more than 100 bytes; writing on is an error, not a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [REPORT, ("list",), ("--help",), ("--version",)])
def test_a_full_device_on_stdout_is_4(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        process = attn_program(*arguments, stdout=full)
    assert process.returncode == 4
    assert process.stderr == "attn: cannot write to stdout: the disk is full.\n"


@pytest.mark.slow
def test_a_full_disk_under_redirected_stdout_is_4(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as out:
        process = attn_program(
            *REPORT, "--format", "json", env=UNCOMPILED, stdout=out, preexec_fn=limited_file_size
        )
    assert process.returncode == 4
    assert process.stderr == "attn: cannot write to stdout: the disk is full.\n"


@pytest.mark.slow
@COMMANDS
def test_a_device_is_written_to_and_not_replaced(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "device").symlink_to("/dev/full")
    process = attn_program(*command, "-o", "device")
    assert (tmp_path / "device").is_symlink()
    assert process.returncode == 4
    assert process.stderr == "attn: cannot write device: the disk is full.\n"


@pytest.mark.slow
@COMMANDS
def test_a_fifo_is_written_to_and_not_replaced(command: tuple[str, ...], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    process = attn_program(*command, "-o", "fifo")  # little enough to fit into the pipe's buffer
    replaced = not stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    received = b"" if replaced else os.read(reader, 2**20)
    os.close(reader)
    assert process.returncode == 0
    assert not replaced
    assert len(received) > 100


@pytest.mark.slow
def test_stdout_by_name_is_stdout(tmp_path: Path) -> None:
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    process = attn_program(*REPORT, "-o", "stdout", "--format", "csv")
    assert process.returncode == 0
    assert process.stdout == attn(*REPORT, "--format", "csv").out
    with open(tmp_path / "maps", "wb") as out:
        assert attn_program(*MAPS, "-o", "stdout", stdout=out).returncode == 0
    assert (tmp_path / "stdout").is_symlink()
    assert load((tmp_path / "maps").read_bytes())["layers.0.attention"].shape == (1, 4, 4)


@COMMANDS
def test_a_link_stays_a_link(command: tuple[str, ...], tmp_path: Path) -> None:
    """`-o FILE` is that file, also where FILE is a link to it."""
    link = called(command, "link")
    (tmp_path / "real").write_text("before")
    (tmp_path / link).symlink_to("real")
    assert attn(*command, "-o", link).code == 0
    assert (tmp_path / link).is_symlink()
    assert (tmp_path / "real").stat().st_size > 100


def test_a_network_is_not_overwritten_by_its_own_report(tmp_path: Path) -> None:
    attn(*NETWORK, "-o", "net.safetensors")
    before = (tmp_path / "net.safetensors").read_bytes()
    for options in (["-o", "net.safetensors"], ["-o", "./net.safetensors", "--format", "json"]):
        outcome = attn("rank-collapse", "net.safetensors", *options)
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert (tmp_path / "net.safetensors").read_bytes() == before


WRITERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "rank-collapse": (REPORT, "-o"),
    "paths": (("paths",), "-o"),
    "count-paths": (("count-paths",), "-o"),
    "inspect-weights": (("inspect-weights", "./no-such-model"), "-o"),
    "inspect-maps": (("inspect-maps", "no-such-maps.npy"), "-o"),
    "dispersion": (("dispersion", "./no-such-model", "--lengths", "4:8"), "-o"),
    "attribute": (("attribute", "./no-such-model", "--token", "0"), "-o"),
    "sensitivity": (("sensitivity", "./no-such-model"), "-o"),
    "head-capacity": (("head-capacity", "./no-such-model"), "-o"),
    "verify-fit": (("verify-fit", "no-such-fit.safetensors"), "-o"),
    "reproduce circle": (("reproduce", "circle"), "-o"),
    "reproduce memorise": (("reproduce", "memorise"), "-o"),
    "reproduce sort": (("reproduce", "sort"), "-o"),
    "reproduce convex-hull": (("reproduce", "convex-hull"), "-o"),
    "reproduce rank-heads": (("reproduce", "rank-heads"), "-o"),
    "inspect-model": (("inspect-model", "./no-such-model"), "-o"),
    "inspect-model --save-maps": (("inspect-model", "./no-such-model"), "--save-maps"),
    "approximate": (("approximate", "--length", "4"), "-o"),
    "check": (("check", "no-such-report.json"), "--output"),
    "compare": (("compare", "no-such-report.json", "nor-this.json"), "-o"),
    "sweep": (("sweep", "rank-collapse", "--model", "./no-such-model"), "-o"),
    "ci": (("ci",), "-o"),
    "list": (("list", "metrics"), "-o"),
    "generate maps": (MAPS, "-o"),
    "generate network": (NETWORK, "-o"),
    "rank-collapse --plot": (REPORT, "--plot"),
    "check --plot": (("check", "no-such-report.json"), "--plot"),
}
"""Every command that writes a file that is named."""


@pytest.mark.parametrize("ending", [".yaml", ".xml", ".htm", "", ".jsn", ".json.gz", ".parquet", ".", ".JSON~"])  # fmt: skip
@pytest.mark.parametrize("writer", WRITERS)
def test_an_ending_that_names_no_format_is_refused_before_the_work(
    writer: str, ending: str, tmp_path: Path
) -> None:
    """With what there is; nothing is run and nothing is written."""
    command, option = WRITERS[writer]
    outcome = attn(*command, f"{option}=x{ending}" if option == "--plot" else option, *[f"x{ending}"] * (option != "--plot"))  # fmt: skip
    assert (outcome.code, outcome.out) == (2, "")
    assert f"x{ending}" in outcome.err
    assert ".png" in outcome.err if option == "--plot" else " in ." in outcome.err
    assert outcome.err.count("\n") == 1
    assert not files_in(tmp_path)


def test_no_writer_was_forgotten() -> None:
    """Every option of every command that takes the name of a file to write stands above."""
    found = set()
    for line in (Path(__file__).parent / "options.txt").read_text().splitlines():
        *words, option = line.removeprefix("attn ").removesuffix(" required").split()
        if option.startswith(("--output", "--save-maps")):
            found.add(" ".join([*words, *["--save-maps"] * ("--save-maps" in option)]))
    assert found == {name for name in WRITERS if "--plot" not in name}


@pytest.mark.parametrize("name", ["x.tiff", "x.html", "x.YAML", "x.csv"])
def test_the_word_after_plot_is_its_file_also_where_it_cannot_be_drawn(name: str) -> None:
    outcome = attn(*REPORT, "--plot", name)
    assert (outcome.code, f"--plot {name}: the file must end in .png" in outcome.err) == (2, True)


@pytest.mark.parametrize("name", ["x", "x.yaml", "x.xml"])
def test_a_format_that_is_named_may_go_anywhere(name: str, tmp_path: Path) -> None:
    assert attn(*REPORT, "-o", name, "--format", "csv").code == 0
    assert (tmp_path / name).read_text().startswith("metric,")


def test_a_report_is_not_written_as_tensors(tmp_path: Path) -> None:
    for format in ([], ["--format", "json"]):
        outcome = attn(*REPORT, "-o", "x.safetensors", *format)
        assert (outcome.code, "end it in .csv, .html, .json, .jsonl, .md or .txt" in outcome.err) == (2, True)  # fmt: skip
    assert "--format junit" in attn(*REPORT, "-o", "x.xml").err
    assert not files_in(tmp_path)


def test_report_and_figure_cannot_be_one_file() -> None:
    pytest.importorskip("matplotlib")
    assert attn(*REPORT, "-o", "x.svg", "--plot", "x.svg").code == 2


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.json", "{\n"),
        ("x.jsonl", '{"metric"'),
        ("x.csv", "metric,"),
        ("x.md", "**SAN"),
        ("x.txt", "SAN"),
        ("x.JSON", "{\n"),
    ],
)
def test_the_ending_names_the_format(name: str, start: str, tmp_path: Path) -> None:
    assert attn(*REPORT, "-o", name).code == 0
    assert (tmp_path / name).read_text().startswith(start)


def test_where_nothing_can_be_drawn_the_report_is_out_and_no_figure_is(tmp_path: Path) -> None:
    target = tmp_path / "path.png"
    told = ("paths", "--path", "1,0", "--layers", "2", "--seeds", "1")
    outcome = attn(*told, "--plot", str(target))
    assert outcome.out == attn(*told).out
    said = f"attn: no --plot {target}: the report holds nothing that a figure is drawn of.\n"
    assert (outcome.code, outcome.err, target.exists()) == (2, said, False)


def test_a_report_is_not_written_as_a_picture(tmp_path: Path) -> None:
    """`-o x.png` is a slip for `--plot x.png`."""
    assert attn(*REPORT, "-o", "x.png").code == 2
    assert not files_in(tmp_path)


@pytest.mark.parametrize("format", ["table", "json", "jsonl", "csv", "markdown"])
def test_a_file_holds_what_stdout_would_show(format: str, tmp_path: Path) -> None:
    attn(*REPORT, "--format", format, "-o", "out")
    shown = attn(*REPORT, "--format", format).out
    if format == "json":
        documents = [json.loads(text) for text in (shown, (tmp_path / "out").read_text())]
        assert [document.pop("command")[-1] for document in documents] == ["json", "out"]
        assert documents[0] == documents[1]
    else:
        assert (tmp_path / "out").read_text() == shown


@pytest.mark.slow
@pytest.mark.parametrize("format", ["json", "jsonl", "csv"])
def test_a_terminal_plot_does_not_spoil_data(format: str) -> None:
    """Refused, or kept off stdout."""
    plotted = attn(*REPORT, "--format", format, "--plot")
    clean = attn(*REPORT, "--format", format).out
    if format == "json":
        assert plotted.code == 2 or json.loads(plotted.out)["rows"] == json.loads(clean)["rows"]
    else:
        assert plotted.code == 2 or plotted.out == clean
    named = attn(*REPORT, "-o", f"x.{format}", "--plot")
    assert (named.code, f"--plot would spoil the {format}" in named.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r.json", "r.csv", "f.svg", "f.png"])
def test_the_same_command_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    option = ["-o", name] if name.startswith("r") else ["--plot", name]
    results = []
    for salt in ("1", "2"):
        process = attn_program("rank-collapse", *SMALL, *option, env={"PYTHONHASHSEED": salt})
        assert process.returncode == 0
        results.append((tmp_path / name).read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("command", [MAPS, NETWORK], ids=["maps", "network"])
def test_generated_files_have_the_same_bytes_every_time(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    results = set()
    for _ in range(4):
        attn(*command, "-o", "x.safetensors")
        results.add((tmp_path / "x.safetensors").read_bytes())
    assert len(results) == 1


def test_a_saved_network_gives_the_numbers_of_the_generated_one(tmp_path: Path) -> None:
    sizes = ("--layers", "3", "--tokens", "5", "--width", "8", "--heads", "2", "--biases")
    attn("generate", "network", *sizes, "--seed", "7", "-o", "net.safetensors")
    direct = attn("rank-collapse", *sizes, "--seed", "7", "--seeds", "1", "--format", "csv")
    saved = attn("rank-collapse", "net.safetensors", "--format", "csv")
    assert direct.code == 0
    assert saved.out == direct.out
    assert load_file(tmp_path / "net.safetensors")["x"].shape == (5, 8)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["json", "csv", "table"])
def test_a_name_that_is_no_text_is_no_bug(format: str, tmp_path: Path) -> None:
    """A file name is bytes; the report quotes the command line."""
    process = attn_program(*REPORT, "--format", format, "-o", b"caf\xe9.out")
    assert process.returncode == 0
    assert os.listdir(os.fsencode(tmp_path)) == [b"caf\xe9.out"]


def test_quiet_is_quiet() -> None:
    outcome = attn(*REPORT, "-q", "-o", "x.csv", "--fail-if", "log10_residual < 9")
    assert outcome == (1, "", "")
