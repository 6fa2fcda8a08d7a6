"""The one place that writes: a report to stdout or a file, everything else to stderr."""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from attncli import gates
from attncli.cli.parameter_names_as_options import replace_parameters_by_options
from attncli.distributed_ranks import is_first_rank
from attncli.errors import UsageError
from attncli.io.atomic_files import (
    is_exempt_from_extension,
    require_writable_file_or_address,
    resolve_symbolic_links,
    translate_os_errors,
    write_atomically,
    write_file_or_address,
)
from attncli.io.standard_streams import print_to_stderr, write_stdout
from attncli.io.tensor_file_extensions import TENSORS, require_safetensors_extension
from attncli.options.run_and_output import OutputOptions
from attncli.records import Report
from attncli.render import FORMATS, map_file_extensions_to_formats
from attncli.resource_limits import parse_whole_number

if TYPE_CHECKING:
    from rich.console import Console

FULL_HEIGHT = 60
"""Lines of a plot without a terminal's height."""
FULL_WIDTH = 10_000
"""Wider than any table: on a pipe nothing is cut or wrapped."""


def validate_output_options(options: OutputOptions, *tensors: Path | None) -> list[gates.Condition]:
    """Validate everything about the output before the work: format, gates, paths, the plot's
    library.

    `tensors`: files that the command writes besides the report, or in place of --output.
    """
    for path in tensors:
        if path is not None:
            require_safetensors_extension(path)
    name = resolve_report_format(options)
    FORMATS[name]
    if options.output is not None and Path(options.output) not in tensors:
        require_report_file_extension(options, options.output)
    if options.plot not in (None, "terminal"):
        from attncli.render.plots.figure_files import require_figure_extension

        require_figure_extension(Path(options.plot), f"--plot {options.plot}")
    options.figure_size_in_inches()
    return [gates.parse_condition(text) for text in options.fail_if]


def write_report(report: Report, options: OutputOptions) -> int:
    """Write a report with decided gates, and its figure; a figure that cannot be drawn is reported
    after the report."""
    undrawn = None
    if options.plot not in (None, "terminal"):
        undrawn = plot_report(report, Path(options.plot), options.figure_size_in_inches())
    name = resolve_report_format(options)
    plot = options.plot == "terminal"
    if options.output is None:
        write_stdout(render_report(report, name, sys.stdout, plot))
    else:
        text = render_report(report, name, None, plot)
        write_file_or_address(options.output, text.encode(errors="backslashreplace"))
    if name == "github":
        append_to_github_step_summary(report)
    print_warnings_and_failed_gates(
        report,
        options,
        written=options.output is None and FORMATS.declaration_of_entry(name).tells_verdicts,
    )
    if undrawn is not None:
        raise undrawn
    return gates.exit_code_of_report(report)


def plot_report(
    report: Report, target: Path, size: "tuple[float, float] | None"
) -> UsageError | None:
    """Or why there is no such figure."""
    from attncli.render.plots.matplotlib_figure import NOTHING, has_figure, save_figure

    if not has_figure(report):
        return UsageError(f"no --plot {target}: {NOTHING}.")
    write_atomically(target, lambda path: save_figure(report, path, size))
    return None


def resolve_report_format(options: OutputOptions) -> str:
    if options.format is not None:
        return options.format
    return (
        map_file_extensions_to_formats().get(Path(options.output).suffix.lower(), "table")
        if options.output
        else "table"
    )


def require_report_file_extension(options: OutputOptions, place: str) -> None:
    """Require an extension, since it selects the format; devices and pipes need none."""
    from attncli.render.plots.figure_files import FIGURES

    path = Path(place)
    ending = path.suffix.lower()
    if ending in FIGURES:
        raise UsageError(f"--output {place} is for the report: draw a figure with --plot {path}.")
    if ending == TENSORS:
        raise UsageError(
            f"--output {place} is for the report, which is no tensors: end it in {format_report_file_extensions()}."
        )
    if options.plot is not None and resolve_symbolic_links(path) == resolve_symbolic_links(
        Path(options.plot)
    ):
        raise UsageError(f"--output and --plot both name {path}: give them different files.")
    require_writable_file_or_address(place)
    if (
        options.format is None
        and ending not in map_file_extensions_to_formats()
        and not is_exempt_from_extension(path)
    ):
        format = map_file_extensions_to_formats(holding_rows=False).get(ending, "table")
        raise UsageError(
            f"--output {place} does not say in which format: end it in {format_report_file_extensions()}, or add --format {format}."
        )


def format_report_file_extensions() -> str:
    *first, last = map_file_extensions_to_formats()
    return f"{', '.join(first)} or {last}"


def render_report(report: Report, name: str, stream: Any, plot: bool) -> str:
    """The report as text for a stream (None = a file): coloured and fitted on a terminal only.

    Warnings are for stderr (`notes`), whichever file the report goes to: text for people stays what stdout would show.
    """
    apart = FORMATS.declaration_of_entry(name).warnings_apart
    result = FORMATS[name](replace(report, warnings=()) if apart else report)
    if isinstance(result, str) and not plot:
        return result
    parts = [result]
    if plot:
        from attncli.render.plots.terminal_plot import plot_in_terminal

        parts.append(plot_in_terminal(report))
    buffer = io.StringIO()
    console = build_rich_console(stream, buffer)
    for part in parts:
        if isinstance(part, str):
            buffer.write(part)
        else:
            console.print(part)
    lines = buffer.getvalue().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def build_rich_console(stream: TextIO, buffer: io.StringIO) -> "Console":
    """A rich console that writes to the buffer as if to the stream."""
    from rich.console import Console

    real = Console(file=stream) if stream is not None else None
    if real is not None and real.is_terminal:
        system: Any = real.color_system
        return Console(
            file=buffer,
            force_terminal=True,
            color_system=system,
            no_color=real.no_color,
            width=real.width,
            height=real.height,
            highlight=False,
        )
    width = parse_whole_number(os.environ.get("COLUMNS", "")) or FULL_WIDTH
    height = parse_whole_number(os.environ.get("LINES", "")) or FULL_HEIGHT
    return Console(
        file=buffer,
        force_terminal=False,
        color_system=None,
        width=width,
        height=height,
        highlight=False,
    )


def append_to_github_step_summary(report: Report) -> None:
    """Append the report to the file that GitHub shows under the job; other steps may have written
    to it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path and is_first_rank():
        with translate_os_errors(Path(path)), open(path, "a", encoding="utf-8") as file:
            file.write(render_report(report, "markdown", None, plot=False))


def print_warnings_and_failed_gates(report: Report, options: OutputOptions, written: bool) -> None:
    """Print what the data does not contain: warnings, the path of the file, failed gates."""
    if options.quiet:
        return
    annotated = options.output is None and resolve_report_format(options) == "github"
    warnings = map(replace_parameters_by_options, [] if annotated else report.warnings)
    lines = [f"warning: {warning}" for warning in warnings]
    if options.output is not None:
        lines.append(f"{report.headline} → {options.output}")
    if not written:
        lines += [f"FAIL  {v.condition}  ({v.text})" for v in report.verdicts if v.failed]
    for line in lines:
        print_to_stderr(line)
