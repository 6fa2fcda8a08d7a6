"""Results that outlive a killed run: those of every study survive, and none is taken for another."""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import attn

from attncli.analysis import distributed_text_loop
from attncli.analysis.rank_collapse.metrics_over_layers import Trajectory
from attncli.processes.resume_cache import PARTS, load_or_compute_result


@pytest.fixture
def report(tmp_path: Path) -> Iterator[Path]:
    PARTS.start_saving_results(tmp_path / "report.json", lambda: "command")
    yield tmp_path / "report.json"
    PARTS.delete_saved_results()


def never() -> Any:
    raise AssertionError("made again")


def test_what_is_kept_is_not_made_again(report: Path) -> None:
    keep = partial(load_or_compute_result, ())
    assert keep("one", lambda: {"a": [1.5, None]}) == {"a": [1.5, None]}
    assert keep("one", never) == {"a": [1.5, None]}
    assert keep("two", lambda: 2) == 2
    assert PARTS.start_saving_results(report, lambda: "command") == 2
    assert keep("one", never) == {"a": [1.5, None]}
    PARTS.start_saving_results(report, lambda: "another")
    assert keep("one", lambda: 3) == 3
    PARTS.delete_saved_results()
    assert list(report.parent.iterdir()) == []


def test_half_written_and_foreign_files_do_not_count(report: Path) -> None:
    keep = partial(load_or_compute_result, ())
    keep("one", lambda: 1)
    (path,) = Path(f"{report}.parts").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    assert keep("one", lambda: 2) == 2
    load_or_compute_result((Path,), "other", lambda: 1)
    assert keep("one", never) == 2


def test_only_named_types_are_read(report: Path) -> None:
    """A file that asks for anything else to be built counts for nothing."""
    found = Trajectory({"log10_residual": [0.0]}, [])
    load_or_compute_result((), "strange", lambda: found)
    assert load_or_compute_result((Trajectory,), "strange", never) == found
    assert load_or_compute_result((), "strange", lambda: 1) == 1


@pytest.mark.parametrize("room", [0, 100, 3000])
def test_a_full_disk_ends_no_run(room: int, tmp_path: Path) -> None:
    """The file system takes so many bytes of a file and no more; what was kept before counts, and it is said once."""
    resource = pytest.importorskip("resource")
    said: list[str] = []
    PARTS.start_saving_results(tmp_path / "report.json", lambda: "command", said.append)
    keep = partial(load_or_compute_result, ())
    assert keep("before", lambda: 1) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        assert [keep(f"text {n}", lambda n=n: [n] * 10_000) for n in range(3)] == [
            [n] * 10_000 for n in range(3)
        ]
        assert keep("before", never) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (sentence,) = said
    assert "are no longer kept" in sentence
    assert "file too large" in sentence
    assert len(list((tmp_path / "report.json.parts").iterdir())) == 1
    PARTS.delete_saved_results()


def test_without_a_report_nothing_is_kept() -> None:
    assert load_or_compute_result((), "one", lambda: 1) == 1
    assert load_or_compute_result((), "one", lambda: 2) == 2


MODEL = ("random:gpt2?layers=2&width=32&heads=2", "--random-tokens", "8", "--samples", "2")
LINES = [
    ("rank-collapse", *MODEL, "--sub-blocks"),
    ("inspect-model", *MODEL, "--metric", "all"),
    ("inspect-model", *MODEL, "--with-shuffled-text"),
    ("paths", *MODEL),
    ("attribute", *MODEL, "--token", "-1"),
    ("paths", *MODEL, "--by", "head"),
    ("paths", *MODEL, "--sample", "2"),
    ("paths", *MODEL, "--path", "0,1"),
]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join([line[0], *line[6:]]))
def test_results_of_every_study_survive(
    line: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report from kept results is the report, in whichever order the texts were read."""
    whole = saved_report(line, tmp_path / "whole.json")
    read = 0

    def from_disk(items: Sequence[Any], work: Callable[..., Any], name: Any, keep: Any) -> list[Any]:  # fmt: skip
        nonlocal read
        for item in reversed(items):
            keep(name(item), lambda item=item: work(item))
        read += len(items)
        return [keep(name(item), never) for item in items]

    monkeypatch.setattr(distributed_text_loop, "divide_work_between_ranks", from_disk)
    assert saved_report(line, tmp_path / "report.json") == whole
    assert read >= 2


def saved_report(line: tuple[str, ...], path: Path) -> dict[str, Any]:
    """As the command writes it, but for the words that asked for it: only what is written to a file is kept."""
    outcome = attn(*line, "-q", "-o", str(path))
    assert outcome.code == 0, outcome.err
    found: dict[str, Any] = json.loads(path.read_text())
    del found["command"]
    return found


@pytest.mark.slow
def test_what_leaves_more_than_its_result_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps are taken while a text is read; from a kept result there would be none."""
    selects = []

    def looked_at(items: Sequence[Any], work: Callable[..., Any], name: Any, keep: Any) -> list[Any]:  # fmt: skip
        selects.append(keep)
        return [work(item) for item in items]

    monkeypatch.setattr(distributed_text_loop, "divide_work_between_ranks", looked_at)
    line = ("inspect-model", *MODEL, "--metric", "entropy")
    assert attn(*line, "--save-maps", str(tmp_path / "maps.safetensors")).code == 0
    assert attn(*line).code == 0
    assert [keep is None for keep in selects] == [True, False]
