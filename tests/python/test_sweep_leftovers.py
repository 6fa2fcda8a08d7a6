"""Half-written files of runs that were killed go; one that another sweep is writing stays."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from attncli.commands.utilities.sweep.report import SweepItem
from attncli.commands.utilities.sweep.resumable_runs import SweepPlan, run_swept_models
from attncli.commands.utilities.sweep.swept_models import remove_partial_reports
from attncli.errors import UsageError
from attncli.io.atomic_files import write_atomically
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines import Outcomes
from attncli.processes.job_sent_to_worker import Job
from attncli.progress import ignore_progress


def test_a_file_that_is_being_written_is_nobodys_leftover(tmp_path: Path) -> None:
    report = tmp_path / "net.json"
    left = tmp_path / ".net.json.abc.json"
    left.write_text("{")

    def write(temporary: Path) -> None:
        remove_partial_reports(str(report))
        assert temporary.exists()
        temporary.write_text("{}")
        remove_partial_reports(str(report))
        assert temporary.exists()

    write_atomically(report, write)
    assert [path.name for path in tmp_path.iterdir()] == ["net.json"]
    assert report.read_text() == "{}"


def test_nothing_half_written_stays_where_a_sweep_is_ended_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is stopped while it writes leaves a file that no other run may ever ask for."""
    monkeypatch.chdir(tmp_path)

    def stopped_while_writing(jobs: Iterable[Job], total: int) -> Outcomes:
        first, second = jobs
        report = Path(second.report)
        (report.parent / f".{report.name}.abc.json").write_text("{")
        yield first.place, ProcessRun(3, "it cannot be read")

    def refuse(item: SweepItem) -> None:
        raise UsageError("it does not go on")

    plan = SweepPlan("rank-collapse", (), {}, ("net-1", "net-2"), str(tmp_path))
    with pytest.raises(UsageError, match="it does not go on"):
        run_swept_models(plan, stopped_while_writing, ignore_progress, refuse)
    assert not list(tmp_path.iterdir())
