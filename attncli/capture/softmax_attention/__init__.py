"""Name the attentions of a forward pass, and emit their maps in strips of rows.

attention_site_names          each attention's stack, layer and kind
rowwise_masks                 masks that are evaluated a strip of rows at a time
visible_key_spans             the keys that each query sees, as spans where they are such
map_statistics                what an observer may ask for instead of a map's weights
attention_interface           models on transformers' attention interface: strips of their own eager function
post_softmax_mixing           maps that are mixed between their softmax and the values: refused
softmax_and_sdpa_calls        all other models: their softmax or sdpa calls, one layer at a time
tensor_parallel_heads         gather heads that are divided over processes
differential_attention        attention that applies one softmax map minus a share of another
attention_output_projections  the linear layers that take the heads' outputs
attention_output_gates        gates that multiply these outputs before
"""
