"""What files of tensors are called; apart from what writes them, which needs numpy."""

from pathlib import Path

from attncli.errors import UsageError
from attncli.io.whole_files import needs_no_ending, require_writable

TENSORS = ".safetensors"


def require_tensor_file(path: Path) -> None:
    """Readers tell safetensors by the ending."""
    require_writable(path)
    if path.suffix.lower() != TENSORS and not needs_no_ending(path):
        raise UsageError(f"cannot write {path}: it holds tensors, so it must end in {TENSORS}.")
