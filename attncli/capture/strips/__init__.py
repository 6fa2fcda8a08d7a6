"""Which attention is which, and its maps as they are made: a strip of rows at a time.

attention_sites        which attention is which: stack, layer, kind
masks                  masks that are evaluated a strip of rows at a time
softmax_inputs         what the softmax was given, where the very tensor that it gave is handed on
attention_interface    models on transformers' attention interface: strips of their own eager function
value_products         the functions that weigh values by a map
mixed_maps             maps that are mixed between their softmax and the values: refused
softmax_calls          all others: their softmax or sdpa calls, one layer at a time
tensor_parallel_heads  heads that are divided over processes, put together again
differential           attention whose maps are one softmax less a part of another
output_projections     the linear layers that take the heads' outputs
output_gates           the gates that multiply these outputs before
"""
