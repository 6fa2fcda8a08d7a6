"""Attention maps in files, read a strip at a time.

map_names     what the tensors of a file of maps are called
foreign_maps  maps as other programs keep them, found by their names and shapes
torch_files   tensors in files of torch
map_files     saved maps, read a strip at a time
"""
