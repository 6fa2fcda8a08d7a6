"""Synthetic transformers: what they are (`spec`, `variants`), their weights (`weights`, `network_files`), one block (`layer`).

Block l, with u = N(X) for a pre-norm and u = X otherwise:

    X ← X + attention(u)  with the attention skip, else attention(u);      X ← N(X) for a post-norm
    X ← X + mlp(u)        with the MLP's skip, else mlp(u);                X ← N(X) for a post-norm

attention(u) = Σ_h P_h (u W_V,h + b_V,h) W_O,h + b_O, with logits (u W_Q + b_Q)(u W_K + b_K)^T/√d
    relative positions add a learned bias[key - query] to the logits
    rope turns queries and keys: feature m with feature m + d/2, by position · 10000^(-2m/d)
    causal shows a query the keys up to itself; window:W the last W of them
    gated multiplies P_h V_h by sigmoid(u W_G,h), entry by entry
    sinkhorn:ROUNDS normalises the rows of e^logits, then ROUNDS times columns and rows
    without the outlier, every entry of P_h is less by 1/n, last of all
mlp(u) = f(u W_in + b_in) W_out + b_out, f relu, silu or gelu (tanh form)
N subtracts the mean over features (layer) or not (rms) and divides by √(mean of squares + 1e-5); no gain, no bias
"""
