"""More forwards: they find out what the first one leaves open, and prove what it has shown.

mixing       which branches mix tokens though nothing attends in them
nameless     norms that are not called so
proofs       tracking changes nothing, and nothing gets past the additions
kept_mixers  what is to be said of branches that mix tokens beside attention
gaps         what lies between blocks is made of the last block's output alone
"""
