"""Attention maps in files, read a strip at a time.

map_names         names of the tensors in a file of maps
third_party_maps  maps saved by other programs, recognised by names and shapes
torch_files       tensors in files of torch
map_files         saved maps, read a strip at a time
"""
