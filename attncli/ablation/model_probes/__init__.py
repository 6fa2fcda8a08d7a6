"""Further forward passes that settle what the first one leaves open, and verify what it has shown.

token_mixing               which branches mix tokens without attention
tracking_verification      tracking changes nothing, and nothing bypasses the additions
describe_token_mixers      notes on branches that mix tokens in addition to attention
operations_between_blocks  what is between blocks depends on the last block's output alone
"""
