"""File names of tensors; separate from the writers, which need numpy."""

from pathlib import Path

from attncli.errors import UsageError
from attncli.io.atomic_files import is_exempt_from_extension, require_writable_path

TENSORS = ".safetensors"


def require_safetensors_extension(path: Path) -> None:
    """Require the ending by which readers recognise safetensors."""
    require_writable_path(path)
    if path.suffix.lower() != TENSORS and not is_exempt_from_extension(path):
        raise UsageError(f"cannot write {path}: it holds tensors, so it must end in {TENSORS}.")
