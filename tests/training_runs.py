"""Small models, a loop that trains them, and everything that a look must leave as it was."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

torch.set_num_threads(1)

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "vocab_size": 60, "max_position_embeddings": 64,
}  # fmt: skip
PROBE = [[5, 9, 12, 7, 5, 9, 30, 31, 32, 33, 34, 12, 13, 14, 2, 3], [8, 8, 9, 10, 11, 40, 41, 42]]


def llama(**more: Any) -> nn.Module:
    config = hf.LlamaConfig(**SIZES, num_key_value_heads=2, attention_dropout=0.1, **more)
    return seeded(lambda: hf.LlamaForCausalLM(config))


def gpt2() -> nn.Module:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 60, "n_positions": 64}
    return seeded(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)))  # fmt: skip


def bert() -> nn.Module:
    return seeded(lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES)))


def gemma3() -> nn.Module:
    """QK norm, a softcap, and a window beside full attention."""
    config = hf.Gemma3TextConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, sliding_window=6, query_pre_attn_scalar=8,
        attn_logit_softcapping=3.0, layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    config._attn_implementation = "eager"
    return seeded(lambda: hf.Gemma3ForCausalLM(config))


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "llama": llama,
    "gpt2": gpt2,
    "bert": bert,
    "gemma3": gemma3,
}


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def batch(step: int, tokens: int = 16) -> dict[str, Tensor]:
    """With padding on both sides, as collators make it."""
    stream = torch.Generator().manual_seed(step)
    ids = torch.randint(2, 60, (3, tokens), generator=stream)
    mask = torch.ones_like(ids)
    mask[1, tokens - 5 :] = 0
    mask[2, :3] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def train(
    model: nn.Module,
    steps: int,
    after: Callable[[], object] = lambda: None,
    given: Callable[[int], dict[str, Tensor]] = batch,
    rate: float = 1e-2,
) -> nn.Module:
    """A plain loop with dropout; `after` each step of the optimiser."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    optimiser = torch.optim.AdamW(model.parameters(), rate)
    model.train()
    for step in range(steps):
        optimiser.zero_grad()
        model(**given(step)).loss.backward()
        optimiser.step()
        after()
    return model


def all_of(model: nn.Module) -> dict[str, Any]:
    """Weights, gradients, buffers, modes, hooks, configuration and random states."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "state": {name: value.clone() for name, value in model.state_dict().items()},
        "gradients": {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()},
        "buffers": {name: (id(value), value.clone()) for name, value in model.named_buffers()},
        "asks": [p.requires_grad for p in model.parameters()],
        "modes": [module.training for module in model.modules()],
        "hooks": [[len(getattr(module, name)) for name in hooks] for module in model.modules()],
        "forwards": ["forward" in vars(module) for module in model.modules()],
        "config": dict(vars(model.config)),  # type: ignore[arg-type]
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]
        "interface": dict(hf.AttentionInterface._global_mapping),
        "grad": torch.is_grad_enabled(),
    }  # fmt: skip


def assert_same(one: Any, other: Any, where: str = "") -> None:
    """To the last bit."""
    if isinstance(one, Tensor):
        assert torch.equal(one, other), where
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one:
            assert_same(one[name], other[name], f"{where} {name}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where} {place}")
    else:
        assert one == other, where
