"""The other side of the comparison: the transformers models themselves, watched by hooks on their blocks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from .common import Array, Run

BLOCKS: Mapping[str, tuple[str, ...]] = {
    "albert": ("AlbertLayer",),
    "bert": ("BertLayer",),
    "distilbert": ("TransformerBlock",),
    "electra": ("ElectraLayer",),
    "gemma3_text": ("Gemma3DecoderLayer",),
    "gemma4_text": ("Gemma4TextDecoderLayer",),
    "gpt2": ("GPT2Block",),
    "gpt_neo": ("GPTNeoBlock",),
    "gpt_neox": ("GPTNeoXLayer",),
    "llama": ("LlamaDecoderLayer",),
    "mistral": ("MistralDecoderLayer",),
    "qwen2": ("Qwen2DecoderLayer",),
    "qwen3_next": ("Qwen3NextDecoderLayer",),
    "roberta": ("RobertaLayer",),
    "siglip": ("SiglipEncoderLayer",),
    "t5": ("T5Block",),
    "vit": ("ViTLayer",),
    "whisper": ("WhisperEncoderLayer", "WhisperDecoderLayer"),
    "xlnet": ("XLNetLayer",),
}
"""Class names of the blocks, whose inputs and outputs are the states."""

MAPS: Mapping[str, str] = {
    "layers": "attentions",
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}
"""What the library calls the maps of each stack."""

PARTS = {"vision_model_output", "text_model_output"}
"""What a model of two models calls their outputs."""


class Float64Kept(TorchFunctionMode):
    """Wherever the code asks for float32, it gets float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        kept = [torch.float64 if value is torch.float32 else value for value in args]
        named = {
            key: torch.float64 if value is torch.float32 else value
            for key, value in (kwargs or {}).items()
        }
        return func(*kept, **named)


def by_library(model: Any, inputs: Any) -> Run:
    """States and maps of the model's own eager forward pass."""
    model.set_attn_implementation("eager")
    with watched(model) as states:
        output = model(**inputs, output_attentions=True)
    maps = {ours: output[theirs] for ours, theirs in MAPS.items() if output.get(theirs)}
    for side in PARTS & output.keys():
        maps[side.replace("_output", ".encoder")] = output[side].attentions
    if "target_mapping" in inputs:
        content, query = zip(*maps["layers"], strict=True)
        maps = {"layers": content, "query": query}
    return Run(dict(states), {name: [p[0].numpy() for p in found] for name, found in maps.items()})


def blocks_of(model: Any) -> list[tuple[str, Any]]:
    """(stack, block); a shared block stands here once, however often it runs."""
    found = []
    for path, module in model.named_modules():
        if type(module).__name__ in BLOCKS[model.config.model_type]:
            found.append((stack_of(path, model.config), module))
    return found


def stack_of(path: str, config: Any) -> str:
    """The stack of a block by its path."""
    if config.model_type == "siglip":
        return path.partition(".layers.")[0]
    return path.split(".")[0] if config.is_encoder_decoder else "layers"


@contextmanager
def watched(model: Any) -> Iterator[dict[str, list[Array]]]:
    """The states of the model's own blocks, [token, feature] per stack, filled during a forward pass."""
    states: dict[str, list[Array]] = defaultdict(list)
    is_xlnet = model.config.model_type == "xlnet"

    def observe(stack: str, tensor: torch.Tensor) -> None:
        one = tensor[:, 0] if is_xlnet else tensor[0]  # XLNet puts the token before the batch
        states[stack].append(one.numpy().copy())

    def observer(stack: str) -> Any:
        def hook(module: Any, args: Any, kwargs: Any, output: Any) -> None:
            entered = args or (kwargs["hidden_states"],)
            left = output if isinstance(output, tuple) else (output,)
            for i, name in enumerate([stack, "query"] if is_xlnet else [stack]):
                if entered[i] is not None:
                    if name not in states:
                        observe(name, entered[i])
                    observe(name, left[i])

        return hook

    with ExitStack() as hooks:
        for stack, block in blocks_of(model):
            handle = block.register_forward_hook(observer(stack), with_kwargs=True)
            hooks.callback(handle.remove)
        yield states


def worst_difference(ours: Mapping[str, list[Array]], theirs: Mapping[str, list[Array]]) -> float:
    """The largest difference, relative to the largest entry of its own array."""
    assert ours.keys() == theirs.keys()
    worst = 0.0
    for name in ours:
        for a, b in zip(ours[name], theirs[name], strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype == np.float64
            worst = max(worst, float(np.abs(a - b).max() / np.abs(b).max()))
    return worst
