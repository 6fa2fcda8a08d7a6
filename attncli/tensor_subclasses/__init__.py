"""Tensor subclasses that replace the residual stream in a model's own code.

torch_function_rules  the base class of the tensors of `exact` and `paths`: a rule for every torch function
sdpa_by_definition    sdpa by its definition
residual_split        the common row and the residual as separate numbers: no float floor
path_streams          the full stream with parts of it in one batch: decomposes the output
stream_gradients      the stream with autograd: which inputs move the output

    >>> import torch
    >>> from transformers import GPT2Config, GPT2Model
    >>> from attncli.capture.model_structure.blocks import find_block_stacks
    >>> from attncli.metrics.log10_residual import log10_residual
    >>> from attncli.tensor_subclasses.residual_split.split_tensor_forward import run_with_split_tensors
    >>> config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0)
    >>> model, inputs = GPT2Model(config).eval(), {"input_ids": torch.arange(5)[None]}
    >>> residuals = {}
    >>> def observe(stack, layer, state):
    ...     residuals[layer] = log10_residual(state)
    >>> with torch.no_grad():
    ...     run_with_split_tensors(model, find_block_stacks(model, inputs), inputs, observe)
    >>> sorted(residuals)
    [0, 1]
"""
