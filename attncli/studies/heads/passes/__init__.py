"""Forward passes, looked at as they run.

strongest_pairs  the strongest pairs of tokens, kept while maps go past
uniform_null     what uniform attention would measure
head_runs        one forward pass, every head and state of it
draws            a batch of random tokens, each draw with numbers of its own
stream_gains     streams of a token that layers mix
"""
