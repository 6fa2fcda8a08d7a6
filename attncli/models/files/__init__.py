"""A checkpoint's files, read without torch wherever that will do.

folders        is there a config, and does it name a model that can be read?
hub_cache      a model of the hub as a folder of the local cache
local_folder   SOURCE as a folder
weight_files   which files hold the weights: one, shards, pickles
tensor_reader  one tensor at a time, bfloat16 included
lazy_tensors   tensors of files as transformers asks for them, read and never mapped where there is room
whole_weights  all of them, for loading
hashing        one hash over all weights, and whether they are finite
revisions      branches and tags of a hub model
"""
