"""`attn inspect-model`: what does each head and layer do?

command               the question of `attn inspect-model`
options               what is measured, on how much of a text, and against which controls
attention_map_export  maps collected for a file, for plots, for a page
run                   from MODEL and the options to a study of its heads
"""
