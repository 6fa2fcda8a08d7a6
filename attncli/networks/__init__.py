"""Synthetic transformers: their sizes, their weights, one block, and which of its parts a variant leaves out.

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

one_head_attention_layer    a one-headed layer of attention alone with its weights held: a map A [query, key] and a matrix W = W_V W_O
frozen_attention_layers     one layer's attention as a linear map: attention weights, gates and norm denominators stay those of a full pass
gated_heads                 what the gates of a synthetic layer multiply, in plain numbers: the heads' outputs, and the weights on token 0
block_forward               one block of a synthetic network as a map of split states
network_files               networks in safetensors files, as design describes them for other programs
rotary_positions_and_masks  rotary positions and masks
network_spec                what a synthetic network is: its sizes and the kinds of its parts
ablation_variants           variants: which parts of every block are switched on
network_weights             the weights of a network, one layer at a time, generated from a seed or read from a file

    >>> from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
    >>> from attncli.metrics.log10_residual import log10_residual
    >>> from attncli.networks.block_forward import run_block
    >>> from attncli.networks.network_spec import NetworkSpec
    >>> from attncli.networks.ablation_variants import VARIANTS
    >>> from attncli.networks.network_weights import GeneratedNetwork
    >>> spec = NetworkSpec(layers=1, tokens=8)
    >>> network = GeneratedNetwork(spec, seed=0)
    >>> before = SplitState.from_states(network.embeddings())
    >>> after = run_block(before, network.layer_weights(0), spec, VARIANTS["SAN"])
    >>> log10_residual(after) < log10_residual(before)
    True
"""
