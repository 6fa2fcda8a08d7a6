"""Parts switched off by surgery on the library's own modules: slow to write down, one line per sublayer, and a check on
what the oracles take the switches to mean.

A skip is taken out by subtracting the stream from the branch before the library adds it again. That costs digits, which
is why it is a check and no method.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from .library import blocks_of


class Sublayer(NamedTuple):
    """Paths inside a block."""

    first: str
    """The module that is fed the stream."""
    last: str
    """Pre-norm: the module that returns the branch. Post-norm: the norm that is fed branch + stream."""
    norms: tuple[str, ...]
    mlp: bool = False
    post: bool = False


def pre(norm: str, last: str, mlp: bool = False, ending: tuple[str, ...] = ()) -> Sublayer:
    return Sublayer(norm, last, (norm, *ending), mlp)


def post(first: str, norm: str, mlp: bool = False) -> Sublayer:
    return Sublayer(first, norm, (norm,), mlp, post=True)


BERT = (
    post("attention.self.query", "attention.output.LayerNorm"),
    post("intermediate.dense", "output.LayerNorm", mlp=True),
)
GPT2 = (pre("ln_1", "attn"), pre("ln_2", "mlp", mlp=True))
LLAMA = (
    pre("input_layernorm", "self_attn"),
    pre("post_attention_layernorm", "mlp", mlp=True),
)
SUBLAYERS: Mapping[str, tuple[Sublayer, ...]] = {
    "AlbertLayer": (
        post("attention.query", "attention.LayerNorm"),
        post("ffn", "full_layer_layer_norm", mlp=True),
    ),
    "BertLayer": BERT,
    "ElectraLayer": BERT,
    "RobertaLayer": BERT,
    "TransformerBlock": (
        post("attention.q_lin", "sa_layer_norm"),
        post("ffn.lin1", "output_layer_norm", mlp=True),
    ),
    "XLNetLayer": (
        post("rel_attn", "rel_attn.layer_norm"),
        post("ff.layer_1", "ff.layer_norm", mlp=True),
    ),
    "GPT2Block": GPT2,
    "GPTNeoBlock": GPT2,
    "GPTNeoXLayer": (
        pre("input_layernorm", "attention"),
        pre("post_attention_layernorm", "mlp", mlp=True),
    ),
    "LlamaDecoderLayer": LLAMA,
    "MistralDecoderLayer": LLAMA,
    "Qwen2DecoderLayer": LLAMA,
    "Gemma3DecoderLayer": (
        pre("input_layernorm", "post_attention_layernorm", ending=("post_attention_layernorm",)),
        pre(
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
            mlp=True,
            ending=("post_feedforward_layernorm",),
        ),
    ),
    "Gemma4TextDecoderLayer": (
        pre("input_layernorm", "post_attention_layernorm", ending=("post_attention_layernorm",)),
        pre(
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
            mlp=True,
            ending=("post_feedforward_layernorm",),
        ),
        Sublayer(
            "per_layer_input_gate",
            "post_per_layer_input_norm",
            ("post_per_layer_input_norm",),
            mlp=True,
        ),
    ),
    "ViTLayer": (pre("layernorm_before", "attention"), pre("layernorm_after", "mlp", mlp=True)),
    "SiglipEncoderLayer": (pre("layer_norm1", "self_attn"), pre("layer_norm2", "mlp", mlp=True)),
    "WhisperEncoderLayer": (
        pre("self_attn_layer_norm", "self_attn"),
        pre("final_layer_norm", "fc2", mlp=True),
    ),
    "WhisperDecoderLayer": (
        pre("self_attn_layer_norm", "self_attn"),
        pre("encoder_attn_layer_norm", "encoder_attn"),
        pre("final_layer_norm", "fc2", mlp=True),
    ),
}


def sublayers(block: Any) -> tuple[Sublayer, ...]:
    if type(block).__name__ == "Qwen3NextDecoderLayer":
        mixer = "self_attn" if hasattr(block, "self_attn") else "linear_attn"
        return (pre("input_layernorm", mixer), pre("post_attention_layernorm", "mlp", mlp=True))
    if type(block).__name__ != "T5Block":
        return SUBLAYERS[type(block).__name__]
    attentions = ("SelfAttention", "EncDecAttention")[: len(block.layer) - 1]
    names = [*attentions, "DenseReluDense"]
    return tuple(
        pre(f"layer.{i}.layer_norm", f"layer.{i}.{name}", mlp=name == "DenseReluDense")
        for i, name in enumerate(names)
    )


@contextmanager
def operated(model: Any, switches: Any) -> Iterator[None]:
    """The model with parts of its blocks switched off."""
    with ExitStack() as stitches:
        for _, block in blocks_of(model):
            parallel = getattr(block, "use_parallel_residual", False)
            for sublayer in sublayers(block):
                operate(block, sublayer, switches, parallel, stitches)
        yield


def operate(block: Any, sublayer: Sublayer, s: Any, parallel: bool, stitches: ExitStack) -> None:
    removed = sublayer.mlp and not s.mlp
    published = removed and s.as_published and type(block).__name__ == "AlbertLayer"
    if published:
        replace(block, ("ffn", "ffn_output"), stitches)
    norm_goes = removed and sublayer.post and not s.mlp_norm and not published
    if not s.norms or norm_goes:
        replace(block, sublayer.norms, stitches)
    skip = (s.mlp_skip or parallel) if sublayer.mlp else s.skip
    if published or (skip and not removed):
        return
    stream: list[torch.Tensor] = []
    first, last = (block.get_submodule(path) for path in (sublayer.first, sublayer.last))
    remember = partial(remembered, stream)
    stitches.callback(first.register_forward_pre_hook(remember).remove)
    if sublayer.post:
        change = (lambda total: stream.pop(0)) if removed else (lambda total: total - stream.pop(0))
        handle = last.register_forward_pre_hook(lambda module, args: (change(args[0]),))
    else:
        change = torch.zeros_like if removed else (lambda branch: branch - stream.pop(0))
        handle = last.register_forward_hook(lambda module, args, output: on_first(change, output))
    stitches.callback(handle.remove)


def remembered(stream: list[torch.Tensor], module: Any, args: Any) -> None:
    """XLNet's attention is fed two streams at once and normalises them in that order; all else is fed one."""
    stream[:] = [tensor for tensor in args[:2] if tensor is not None]


def on_first(change: Any, output: Any) -> Any:
    """Attention modules return a tuple, whose first element is the branch."""
    return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)


def replace(block: Any, paths: tuple[str, ...], stitches: ExitStack) -> None:
    """The modules at these paths become identities, until the stitches are taken out."""
    for path in paths:
        parent, _, name = path.rpartition(".")
        owner = block.get_submodule(parent)
        stitches.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, nn.Identity())
