"""Files that others wrote, read without torch and believed only after checks; files of ours, written whole or not at all.

json_files        config.json and the like
headers           what the safetensors headers say
stamps            files that somebody writes while they are read
arrays            the tensors of a safetensors file, read and never mapped
numpy_files       arrays in .npy and .npz files
label_files       the tokens of a text
addresses         files at an fsspec address, read and written whole
in_memory_arrays  arrays that the caller holds, read as those of files
file_kinds        what one file is, seen in its content
tensor_files      writes safetensors files, the same bytes every time
tensor_names      what files of tensors are called; apart from what writes them, which needs numpy
whole_files       writing a file whole or not at all
standard_output   what goes to stdout, whole or told: whoever else meets an error of the system was not writing there
"""
