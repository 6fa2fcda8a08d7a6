"""Prepare command lines for typer, and rephrase typer's error messages."""

from collections.abc import Sequence

PICTURES = (
    ".png",
    ".svg",
    ".pdf",
    ".jpg",
    ".jpeg",
    ".gif",
    ".webp",
    ".eps",
    ".ps",
    ".bmp",
    ".tif",
    ".tiff",
)
PAGES = (".html", ".htm", ".xml", ".yaml", ".yml", ".txt", ".md", ".csv")
"""Extensions that make the word after --plot its target; the writer decides which of them it can
draw."""

PARSER_WORDS = {
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
}


def prepare_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the line for typer: without --debug, which main handles, and with the forms that typer
    lacks rewritten."""
    return move_config_first(add_plot_target([part for part in arguments if part != "--debug"]))


def add_plot_target(arguments: Sequence[str]) -> list[str]:
    """`--plot FILE.png` draws to a file, a bare `--plot` in the terminal: an optional value, which typer lacks."""
    result: list[str] = []
    for part in arguments:
        if result and result[-1] == "--plot=terminal" and part.lower().endswith(PICTURES + PAGES):
            result[-1] = f"--plot={part}"
        else:
            result.append("--plot=terminal" if part == "--plot" else part)
    return result


def move_config_first(arguments: Sequence[str]) -> list[str]:
    """Move `--config FILE` to the front: it belongs to the whole program, whose options precede the
    command."""
    first: list[str] = []
    rest: list[str] = []
    for part in arguments:
        if first and first[-1] == "--config":
            first[-1] = f"--config={part}"
        else:
            is_config = part == "--config" or part.startswith("--config=")
            (first if is_config else rest).append(part)
    return first + rest
