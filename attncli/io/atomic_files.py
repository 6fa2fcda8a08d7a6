"""Write a file whole or not at all."""

import contextlib
import errno
import os
import re
import signal
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from attncli.distributed_ranks import is_first_rank
from attncli.errors import AttnError, InputError, LimitError, UsageError
from attncli.io.remote_files import is_remote_url, open_file_system, write_remote_file

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/")
"""What an fsspec address looks like after Path has collapsed its two slashes."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary file beside the target and move it there when it is complete.

    Devices and pipes (/dev/stdout, a fifo) are written to directly. Of several processes only the first one writes.
    """
    if not is_first_rank():
        return
    with translate_os_errors(path):
        if is_device_or_pipe(path):
            write(path)
            return
        path = resolve_symbolic_links(path)
        with make_temporary_file(path) as temporary:
            write(temporary)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)


def write_file_or_address(place: str, content: bytes) -> None:
    """Write to a file or an address, whole or not at all."""
    if not is_remote_url(place):
        write_atomically(Path(place), lambda path: path.write_bytes(content))
    elif is_first_rank():
        try:
            write_remote_file(place, content)
        except InputError as error:  # read as an output path here
            raise UsageError(str(error)) from None


def require_writable_file_or_address(place: str) -> None:
    """Refuse a file that cannot be written, or an address whose protocol is not available."""
    if is_remote_url(place):
        open_file_system(place)
    else:
        require_writable_path(Path(place))


def require_writable_path(path: Path) -> None:
    """Refuse an unwritable output before any work is done."""
    if not is_first_rank():
        return
    with translate_os_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if not is_device_or_pipe(path):
            with make_temporary_file(resolve_symbolic_links(path)):
                pass


def create_folder_if_missing(path: Path) -> None:
    """Make the folder for several files, if it is missing."""
    with translate_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)


def resolve_symbolic_links(path: Path) -> Path:
    """Resolve links to the file that they name."""
    try:
        return path.resolve()
    except RuntimeError:  # Python's error for links that lead to each other
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    except UnicodeEncodeError:  # half a character, which no file has in its name
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), str(path)) from None


def is_device_or_pipe(path: Path) -> bool:
    with translate_os_errors(path):
        return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def is_exempt_from_extension(path: Path) -> bool:
    """Whether the path needs no ending: devices, pipes, and the system's names for this process's files, such as /dev/stdout."""
    names = (str(path), os.readlink(path) if path.is_symlink() else "")
    return is_device_or_pipe(path) or any(name.startswith(("/dev/", "/proc/")) for name in names)


@contextlib.contextmanager
def make_temporary_file(path: Path) -> Iterator[Path]:
    """An empty file in the target's folder with the permissions of a new file, removed unless it was moved away.

    Held meanwhile, so that nobody takes it for one that a killed run has left.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    temporary = Path(name)
    try:
        lock_file(handle)
        mask = os.umask(0)
        os.umask(mask)
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        with remove_file_on_signal(temporary):
            yield temporary
    finally:
        os.close(handle)
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def remove_file_on_signal(temporary: Path) -> Iterator[None]:
    """Remove the half-written file on a signal that ends this process, unless it has another handler."""

    own = os.getpid()

    def remove_and_exit(number: int, frame: object) -> None:
        if os.getpid() == own:  # not in a child process that has inherited this handler
            temporary.unlink(missing_ok=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    mine = threading.current_thread() is threading.main_thread()
    deadly = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    unanswered = [each for each in deadly if mine and signal.getsignal(each) is signal.SIG_DFL]
    for each in unanswered:
        signal.signal(each, remove_and_exit)
    try:
        yield
    finally:
        for each in unanswered:
            signal.signal(each, signal.SIG_DFL)


def lock_file(handle: int) -> bool:
    """Lock the file for this process, until the handle is closed or the process ends; return whether that worked."""
    try:
        import fcntl
    except ImportError:  # without locks no leftovers are removed
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_abandoned_file(path: Path) -> None:
    """Remove a half-written file, unless it is being written now."""
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY)
        try:
            if lock_file(handle):
                path.unlink()
        finally:
            os.close(handle)


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Turn a system error about a file into one sentence with the right exit code."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise make_error_from_os_error(str(path), error) from error


def make_error_from_os_error(target: str, error: OSError) -> AttnError:
    """The sentence and the exit code for a system error."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return LimitError(f"cannot write {target}: the disk is full.")
    if ADDRESS.match(target):
        return UsageError(
            f"cannot write {target}: only reports are written to addresses; give a file."
        )
    return UsageError(f"cannot write {target}: {(error.strerror or str(error)).lower()}.")
