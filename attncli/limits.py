"""What the machine can hold, asked before the work begins."""

from pathlib import Path

from attncli.errors import LimitError

MEMINFO = Path("/proc/meminfo")


def available_memory() -> int | None:
    """Bytes that can be used without swapping; None where the system does not say."""
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    sizes = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(sizes["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in sizes else None


def require_memory(needed: int, what: str, advice: str) -> None:
    """Refuse work that cannot fit, before it starts."""
    available = available_memory()
    if available is not None and needed > available:
        raise LimitError(
            f"{what} needs about {gibibytes(needed)}, {gibibytes(available)} are free: {advice}."
        )


def gibibytes(size: int) -> str:
    return f"{size / 2**30:.2g} GiB"
