"""What is asked about, opened: from SOURCE and options to what a study takes.

network_sources  what each question takes; from options to networks
loaded_models    from options to a model, loaded and proved
map_sources      maps in a file, whoever has saved them
chosen_patterns  patterns, with the forward passes that some of them need
baselines        what a report is held against
token_streams    a text that a task learns by heart
"""
