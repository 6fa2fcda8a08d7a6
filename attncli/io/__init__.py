"""Read files without torch, and trust them only after checks; write files whole or not at all.

json_files              config.json and the like
safetensors_headers     headers of safetensors files
file_change_detection   detect files that change while they are read
safetensors_arrays      the tensors of a safetensors file, read and never mapped
numpy_files             arrays in .npy and .npz files
token_label_files       the tokens of a text
remote_files            files at an fsspec address, read and written whole
in_memory_arrays        arrays in memory, with the interface of those in files
file_kind_detection     detect a file's kind by its content
tensor_files            write safetensors files, the same bytes every time
tensor_file_extensions  file names of tensors, without importing numpy
atomic_files            write a file whole or not at all
standard_streams        reports on stdout, written completely or refused; sentences on stderr

    >>> import tempfile
    >>> from pathlib import Path
    >>> from attncli.io.atomic_files import write_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "note.txt"
    ...     write_atomically(path, lambda unfinished: unfinished.write_text("whole"))
    ...     print(path.read_text())
    whole
"""
