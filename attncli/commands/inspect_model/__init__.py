"""`attn inspect-model`: what does each head and layer do?

command     the options of `attn inspect-model`
request     what to inspect, besides the options of the model and its input
map_export  maps collected for a file, for plots, for a page
run         from MODEL and the options to a study of its heads
"""
