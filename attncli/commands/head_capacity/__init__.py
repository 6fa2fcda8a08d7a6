"""Which patterns could each trained head produce, and how far does the input move its map?

required_width_and_scale   how wide a module must be for a head's own map
one_head                   one head of a model: inputs that make it show the patterns
reachable_random_patterns  how many random patterns a head can show
head_report_rows           the rows of each head, and sentences
measure_trained_heads      the study of all heads
model_for_real_tokens      load the model for `attn head-capacity MODEL --head 0.H --inputs embeddings`
run                        `attn head-capacity MODEL`: from the options to a survey of all trained heads
command                    `attn head-capacity`
"""
