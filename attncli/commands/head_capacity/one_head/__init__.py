"""One trained head: which inputs make it show the patterns.

found_inputs  free inputs that do, in every dtype
trained_head  the study of these
token_table   what every token puts into a head of layer 0
token_search  tokens exchanged, one after the other, for the best of all
real_inputs   the study of real tokens, beside free inputs
"""
