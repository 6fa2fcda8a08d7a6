"""Half-written files of runs that were killed go; one that another sweep is writing stays."""

from pathlib import Path

from attncli.api.swept.sweep_items import remove_leftovers
from attncli.writing.whole_files import write_whole


def test_a_file_that_is_being_written_is_nobodys_leftover(tmp_path: Path) -> None:
    report = tmp_path / "net.json"
    left = tmp_path / ".net.json.abc.json"
    left.write_text("{")

    def write(temporary: Path) -> None:
        remove_leftovers(str(report))
        assert temporary.exists()
        temporary.write_text("{}")
        remove_leftovers(str(report))
        assert temporary.exists()

    write_whole(report, write)
    assert [path.name for path in tmp_path.iterdir()] == ["net.json"]
    assert report.read_text() == "{}"
