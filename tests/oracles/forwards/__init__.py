"""Forward passes of transformers models, written by hand in float64 numpy: one file per architecture.

Each file has the same two functions, `ORACLES` finds it by `config.model_type`:

    forward(model, inputs, switches) -> {stack: [state, …]}   [token, feature] before the first block and after each
    attention_maps(model, inputs)    -> {stack: [map, …]}     [head, query, key] of each attention, all switched on

Stacks are "layers", or "encoder" and "decoder", SigLIP's go by their paths; maps of cross attention are under "cross", XLNet's second stream is
"query". States are what enters and leaves the blocks: an embedding's norm lies before the first, a final norm after the
last. ALBERT's states count every run of a shared block.

From the model come its parameters (`state_dict`), its config, and three kinds of float32 constants that it keeps as
buffers: RoPE's `inv_freq`, its attention scaling and Gemma's embedding scale. No arithmetic of torch, transformers or
attncli. The library itself rounds to float32 inside: RMSNorm, softmax in most decoders and ViT, the sinusoids of RoPE
and XLNet, the logits of GPT-Neo, the logarithm of T5's buckets. The oracles do not; they equal a library that keeps to
float64 there to 1e-12, and the library as it is to 1e-6.

`switches` is any object with these attributes; what is on is left as the model has it:

    skip          off: the attention's addition returns the branch alone, self and cross; of parallel branches their sum
    mlp           off: the MLP is gone with its skip and its norm, before or after it; several are gone together
    mlp_skip      off: the MLP's addition returns the branch alone; in parallel blocks it has no meaning
    norms         off: every norm in a block is the identity, but those on queries and keys
    mlp_norm      with the MLP off in a post-norm block: its norm stays on the stream
    as_published  with the MLP off in ALBERT: norm(gelu(y) + y) stays, whatever mlp_skip and mlp_norm say
"""

from types import ModuleType

from . import (
    albert,
    bert,
    distilbert,
    electra,
    gemma3,
    gemma4,
    gpt2,
    gpt_neo,
    gpt_neox,
    llama,
    mistral,
    qwen2,
    qwen3_next,
    roberta,
    siglip,
    t5,
    vit,
    whisper,
    xlnet,
)

ORACLES: dict[str, ModuleType] = {
    "albert": albert,
    "bert": bert,
    "distilbert": distilbert,
    "electra": electra,
    "gemma3_text": gemma3,
    "gemma4_text": gemma4,
    "gpt2": gpt2,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "mistral": mistral,
    "qwen2": qwen2,
    "qwen3_next": qwen3_next,
    "roberta": roberta,
    "siglip": siglip,
    "t5": t5,
    "vit": vit,
    "whisper": whisper,
    "xlnet": xlnet,
}
"""By `config.model_type`."""
