"""Files written whole or not at all.

whole_files      any file
standard_output  stdout
tensor_files     safetensors, the same bytes every time
tensor_names     what files of tensors are called
"""
