"""A Llama of two layers, one head each, trained on Markov chains until it has an induction head that counts.

`python markov_heads.py FOLDER [STEPS]` trains for 3,000 steps, three minutes on one core, and writes it there; then
`attn inspect-model FOLDER --random-tokens 24 --metric previous_token,copying --with-random-init` measures its heads.
"""

import sys

import torch
import transformers as hf
from torch import Tensor

SYMBOLS, LENGTH, BATCH, STEPS, RATE, WARM = 3, 64, 64, 3000, 5e-3, 100


def chains(generator: torch.Generator) -> Tensor:
    """[batch, token]: each with transitions of its own, drawn evenly from all that there are."""
    rates = torch.empty(BATCH, SYMBOLS, SYMBOLS).exponential_(generator=generator)
    edges = (rates / rates.sum(dim=-1, keepdim=True)).cumsum(dim=-1)
    drawn = torch.rand(LENGTH, BATCH, 1, generator=generator)
    state = [torch.randint(SYMBOLS, (BATCH,), generator=generator)]
    for draw in drawn[1:]:
        below = draw > edges[torch.arange(BATCH), state[-1]]
        state.append(below.sum(dim=-1).clamp_max(SYMBOLS - 1))
    return torch.stack(state, dim=1)


def untrained() -> hf.LlamaForCausalLM:
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=SYMBOLS,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    return hf.LlamaForCausalLM(config)


def train(model: hf.LlamaForCausalLM, steps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=1e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM) * (1.0 - step / steps)
        ids = chains(generator)
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


if __name__ == "__main__":
    network = untrained()
    train(network, int(sys.argv[2]) if len(sys.argv) > 2 else STEPS)
    network.save_pretrained(sys.argv[1])
