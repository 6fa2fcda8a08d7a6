"""Files that others wrote: nothing that they say of themselves is believed unchecked. Read without torch.

json_files   config.json and the like
headers      what the safetensors headers say
stamps       files that somebody writes while they are read
arrays       the tensors of a safetensors file, read and never mapped
numpy_files  arrays in .npy and .npz files
label_files  the tokens of a text
addresses    files at an fsspec address, read and written whole
held         arrays that the caller holds, read as those of files
"""
