"""More forward passes: they settle what the first one leaves open, and verify what it has shown.

token_mixing    which branches mix tokens though nothing attends in them
unnamed_norms   norms that are not called so
verification    tracking changes nothing, and nothing gets past the additions
mixer_notes     what is to be said of branches that mix tokens beside attention
between_blocks  what lies between blocks is made of the last block's output alone
"""
