"""A GPT-2 whose heads do what they do by construction: previous, first, uniform, own, same token; and induction above.

`python hand_built.py FOLDER` writes it there, for `attn inspect-model FOLDER --random-tokens 24`: a model of which is known what
each head does.

Features: token, position and previous token, one-hot over 32 places each, and all of them once more with the other
sign, so that a layer norm is nothing but a factor.
"""

import math
import sys

import torch
import transformers as hf
from torch import Tensor

PLACES = 32
HEADS = 6
WIDTH = 6 * PLACES
TOKEN, POSITION, PREVIOUS = 0, PLACES, 2 * PLACES
SHARP = 60.0
"""Logit of the wanted key above all others."""

ROLES = (
    ("previous-token", "sink", "uniform", "self", "duplicate", "uniform"),
    ("induction", "self", "uniform", "uniform", "uniform", "uniform"),
)


def hand_built() -> hf.GPT2Model:
    config = hf.GPT2Config(
        vocab_size=PLACES,
        n_embd=WIDTH,
        n_layer=len(ROLES),
        n_head=HEADS,
        n_positions=PLACES,
        bos_token_id=0,
        eos_token_id=0,
        layer_norm_epsilon=1e-12,
    )
    model = hf.GPT2Model(config).double().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        parameter.zero_()
        if "ln" in name and name.endswith("weight"):
            parameter.fill_(1.0)
    eye = torch.eye(PLACES, dtype=torch.float64)
    write(model.wte.weight, TOKEN, eye)
    write(model.wpe.weight, POSITION, eye)
    first, second = (block.attn for block in model.h)
    before = torch.cat([eye[:1], eye[:-1]])  # position 0 looks at itself
    looks(first, 0, POSITION, before, POSITION, active=4)
    first.c_attn.bias[PLACES : PLACES + 1] = SHARP  # queries of head 1: position 0, whoever asks
    matches(first, 1, POSITION, eye, active=4)
    looks(first, 3, POSITION, eye, POSITION, active=4)
    looks(first, 4, TOKEN, eye, TOKEN, active=4)
    carries(first, 0, active=4)
    looks(second, 0, TOKEN, eye, PREVIOUS, active=6)
    looks(second, 1, POSITION, eye, POSITION, active=6)
    return model


def write(table: Tensor, place: int, rows: Tensor) -> None:
    """Into a place and, with the other sign, into its twin."""
    table[:, place : place + PLACES] = rows
    table[:, WIDTH // 2 + place : WIDTH // 2 + place + PLACES] = -rows


def gain(active: int) -> float:
    """What the norm multiplies by where so many features are ±1."""
    return math.sqrt(WIDTH / active)


def looks(attention: hf.GPT2Model, head: int, ask: int, of: Tensor, key: int, active: int) -> None:
    """Queries are a feature turned by a matrix, keys a feature."""
    columns = slice(head * PLACES, (head + 1) * PLACES)
    scale = SHARP * math.sqrt(PLACES) / gain(active) ** 2
    attention.c_attn.weight[ask : ask + PLACES, columns] = scale * of
    matches(attention, head, key, torch.eye(PLACES, dtype=torch.float64), active)


def matches(attention: hf.GPT2Model, head: int, key: int, of: Tensor, active: int) -> None:
    columns = slice(WIDTH + head * PLACES, WIDTH + (head + 1) * PLACES)
    attention.c_attn.weight[key : key + PLACES, columns] = of


def carries(attention: hf.GPT2Model, head: int, active: int) -> None:
    """The token that is looked at is written down as the previous one."""
    eye = torch.eye(PLACES, dtype=torch.float64)
    start = 2 * WIDTH + head * PLACES
    attention.c_attn.weight[TOKEN : TOKEN + PLACES, start : start + PLACES] = eye / gain(active)
    rows = attention.c_proj.weight[head * PLACES : (head + 1) * PLACES]
    write(rows, PREVIOUS, eye)


if __name__ == "__main__":
    hand_built().float().save_pretrained(sys.argv[1])
