"""What engines have in common that hand jobs to a scheduler: how a job that never came back has ended."""

from attncli.errors import LimitError
from attncli.processes.runs import ProcessRun


def lost(error: BaseException | None) -> ProcessRun:
    """A worker that was killed, or a job that its scheduler has given up."""
    first = (str(error).strip().splitlines() or [""])[0]
    why = f"{type(error).__name__}: {first}" if error is not None else "no reason was given"
    return ProcessRun(LimitError.exit_code, f"its worker was lost ({why})")
