"""What does each head do?

passes        forward passes, looked at as they run
rows          the numbers as rows, and in words
judged        roles, and what stands out
kept          maps that are kept, and what is kept beside them
attributed    which input tokens a state comes from
chosen_heads  how much of the model was looked at
chosen_order  by which metric they stand, and how many of them
head_metrics  which metrics are measured
head_views    how it is shown
model_heads   a model while it runs
saved_maps    maps in a file
opened_weights  whose weights they are
length_sweep  how a model's numbers move with the length of the text
weights_only  heads without an input
"""
