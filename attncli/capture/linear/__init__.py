"""Exact maps of layers without a softmax whose output is linear in their values: y = A v, a strip of rows of A at a time.

Which argument of which call is linear is found by trying; what is not is refused by name.

kernel_calls      what a mixer calls, and that once more
inner_steps       steps of a mixer's own forward, run from one to the other
linear_arguments  in which argument a call is linear, found by trying
linear_shortcuts  what makes long maps of it affordable, where it holds
linear_maps       the matrix of such a call, a strip of rows at a time
linear_layers     which layers have such maps, handed on while the model runs
"""
