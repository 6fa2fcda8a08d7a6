"""Forward passes with their attention maps captured.

strongest_pairs        the strongest pairs of tokens, kept while maps go past
uniform_attention      what uniform attention would measure
observer               one forward pass, every head and state of it
draws                  a batch of random tokens, each draw with numbers of its own
hyper_connection_gain  streams of a token that layers mix
"""
