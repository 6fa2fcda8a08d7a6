"""Load a checkpoint as a model: strictly, or not at all.

load_options             options, checked before any heavy import
model_class_of_config    the config's class, without memory for its weights
tensor_parallel          models over several processes
device_placement         models over several devices
isolate_global_state     neutral global state of torch, and one run at a time
memory_estimate          the memory of a model and its run
loaded_model             a model that is ready to run, its body, and its description for the report
loading_issues           missing, unexpected and computed weights
fill_model_from_tensors  fill a model from its files' tensors
in_memory                modules in the caller's process: unwrapped, measured in place, restored
random_init              the same architecture with random weights
checkpoints              load a checkpoint strictly: every weight that a state runs through comes from the files, or there is an error
load_model               SOURCE → LoadedModel
"""
