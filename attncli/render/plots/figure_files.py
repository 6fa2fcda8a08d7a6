"""Files that a figure can be drawn to."""

import importlib.util
from pathlib import Path

from attncli.errors import UsageError
from attncli.io.atomic_files import require_writable_path

FIGURES = (".png", ".svg", ".pdf")


def require_figure_extension(path: Path, called: str) -> None:
    """Refuse a file that no figure can be written to, before any work; `called`: the file as the caller has named it."""
    if path.suffix.lower() not in FIGURES:
        raise UsageError(f"{called}: the file must end in .png, .svg or .pdf.")
    require_matplotlib(called)
    require_writable_path(path)


def require_matplotlib(called: str) -> None:
    """Require the plotting library; `called`: the option that needs it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"{called} needs matplotlib: pip install 'attncli[plot]'.")
