"""Exact maps of layers without a softmax whose output is linear in their values: y = A v, a strip of rows of A at a time.

Which argument of which call is linear is tested numerically; calls without one are refused by name.

calls_inside_mixers             record what a mixer calls, and call it again
find_scans_in_forward_code      steps of a mixer's own forward, run from one to the other
linearity_tests                 in which argument a call is linear, by tests
shortcuts_for_long_linear_maps  make long maps affordable, where possible
linear_attention_maps           the matrix of such a call, a strip of rows at a time
linear_attention_heads          linear layers, and the heads of them that are measured
linear_attention_capture        which layers have such maps, emitted while the model runs
"""
