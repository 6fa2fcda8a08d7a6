"""One BLAS thread around loops of our own, and the caller's setting given back.

Our products are small: waking more threads costs more than they give (a learned fit takes many times the CPU with two of
them on busy cores). The command says so to its whole process before anything is loaded (`cli/main.py`); in a caller's
process it holds only while a question is answered. torch's own libraries are left alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Also a decorator. What is loaded later is not seen: whoever loads scipy enters once more."""
    import numpy  # noqa: F401 - so that its library is there to be seen
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()
    ours = [
        library.filepath
        for library in controller.lib_controllers
        if library.user_api == "blas" and "torch" not in Path(library.filepath).parts
    ]
    with controller.select(filepath=ours).limit(limits=1):
        yield
