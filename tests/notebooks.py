"""The notebook of the examples, executed. `python tests/notebooks.py` writes what its cells show today into it."""

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook.ipynb"


def committed() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def executed(notebook: Any, folder: Path) -> Any:
    """A copy with the outputs of a fresh run in the folder; what goes to stderr (bars of other libraries) is left out."""
    fresh = nbformat.from_dict(notebook)
    NotebookClient(
        fresh,
        timeout=None,
        startup_timeout=600,  # seconds: a busy machine is slow to start a kernel
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    ).execute()
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    return fresh


def shown(notebook: Any) -> list[str]:
    """The text of every output; pictures and tables for browsers are made of the same numbers."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    return [out.get("text") or out["data"]["text/plain"] for out in outputs]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        nbformat.write(executed(committed(), Path(scratch)), NOTEBOOK)
