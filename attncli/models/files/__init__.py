"""Read a checkpoint's files, without torch where possible.

config_checks       is there a config, and does it name a model that can be read?
hub_cache           a hub model as a folder of the local cache
model_folder        SOURCE as a folder
weight_files        which files are the weights: one, shards, pickles
tensor_reader       one tensor at a time, bfloat16 included
lazy_tensors        tensors that are read on access, and mapped only where memory is short
load_weights        all tensors, for loading
weight_hashing      one hash over all weights, and whether they are finite
hub_revisions       branches and tags of a hub model
state_dict_hashing  hash tensors in memory as if they were in a file
"""
