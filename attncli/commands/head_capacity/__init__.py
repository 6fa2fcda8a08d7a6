"""What could each trained head show, and what moves it?

map_requirements  what a head's own map asks of a module
one_head          one head of a model: which inputs make it show the patterns
random_patterns   how many random patterns a head can show
survey_rows       one line for each head, and words
head_survey       the study
real_tokens       `attn head-capacity MODEL --head 0.H --inputs embeddings`: the model whose tokens are tried
run               `attn head-capacity MODEL`: from the options to a survey of all trained heads
command           `attn head-capacity`
"""
