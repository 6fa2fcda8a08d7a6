"""Files that others wrote, believed only as far as the file bears them out, and read without torch.

json_files   config.json and the like
headers      what the safetensors headers say
arrays       the tensors of a safetensors file, read and never mapped
numpy_files  arrays in .npy and .npz files
label_files  the tokens of a text
addresses    files at an fsspec address, read and written whole
held         arrays of the caller, read likewise
"""
