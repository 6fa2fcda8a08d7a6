"""Folders that bring their own modelling code, in the three styles that people write: all go through the same proofs."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import attncli as attn
from attncli.errors import InputError

WIDTH, HEADS, LAYERS, WORDS = 16, 2, 2, 20
IDS = [1, 5, 9, 2, 5, 7]

CONFIGURATION = """
from transformers import PretrainedConfig

class OwnConfig(PretrainedConfig):
    model_type = "own_decoder"

    def __init__(self, hidden_size=16, num_attention_heads=2, num_hidden_layers=2, vocab_size=20, style="sdpa", **more):
        self.hidden_size, self.num_attention_heads = hidden_size, num_attention_heads
        self.num_hidden_layers, self.vocab_size, self.style = num_hidden_layers, vocab_size, style
        super().__init__(**more)
"""

MODEL = """
import math
import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from .configuration_own import OwnConfig

def eager_attention_forward(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    scores = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = F.softmax(scores, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights

class OwnAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx, self.is_causal = config, layer_idx, True
        width = config.hidden_size
        self.head_dim = width // config.num_attention_heads
        self.num_key_value_groups, self.scaling = 1, self.head_dim ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, hidden_states, mask):
        q, k, v = (
            part(hidden_states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.config.style == "interface":
            attend = eager_attention_forward
            if self.config._attn_implementation != "eager":
                attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
            found, _ = attend(self, q, k, v, mask, scaling=self.scaling)
        elif self.config.style == "softmax":
            weights = torch.softmax(q @ k.transpose(-1, -2) * self.scaling + mask, dim=-1)
            found = torch.matmul(weights, v).transpose(1, 2)
        else:
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        return self.o_proj(found.flatten(2))

class OwnBlock(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        width = config.hidden_size
        self.input_norm, self.self_attn = nn.LayerNorm(width), OwnAttention(config, layer_idx)
        self.post_norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 32), nn.Linear(32, width)

    def forward(self, hidden_states, mask):
        hidden_states = hidden_states + self.self_attn(self.input_norm(hidden_states), mask)
        return hidden_states + self.down(F.gelu(self.up(self.post_norm(hidden_states))))

class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _supports_attention_backend = True

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([OwnBlock(config, n) for n in range(config.num_hidden_layers)])
        self.norm = nn.LayerNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self):
        return self.embed_tokens

    def forward(self, input_ids=None, **kwargs):
        states = self.embed_tokens(input_ids)
        length = input_ids.shape[1]
        mask = torch.full((length, length), torch.finfo(states.dtype).min, dtype=states.dtype).triu(1)[None, None]
        for layer in self.layers:
            states = layer(states, mask)
        return BaseModelOutputWithPast(last_hidden_state=self.norm(states))
"""

STYLES = ["interface", "softmax", "sdpa"]


def weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])

    found = {"embed_tokens.weight": drawn(WORDS, WIDTH)}
    norms = ["norm"]
    for layer in range(LAYERS):
        at = f"layers.{layer}"
        found |= {f"{at}.self_attn.{side}_proj.weight": 3 * drawn(WIDTH, WIDTH) for side in "qkvo"}
        found |= {f"{at}.up.weight": drawn(32, WIDTH), f"{at}.down.weight": drawn(WIDTH, 32)}
        found |= {f"{at}.up.bias": drawn(32), f"{at}.down.bias": drawn(WIDTH)}
        norms += [f"{at}.input_norm", f"{at}.post_norm"]
    for norm in norms:
        found |= {f"{norm}.weight": torch.ones(WIDTH), f"{norm}.bias": torch.zeros(WIDTH)}
    return found


@pytest.fixture(params=STYLES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint as people put on the hub what transformers does not know."""
    (tmp_path / "configuration_own.py").write_text(CONFIGURATION)
    (tmp_path / "modeling_own.py").write_text(MODEL)
    auto_map = {"AutoConfig": "configuration_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    config = {
        "model_type": "own_decoder",
        "architectures": ["OwnModel"],
        "auto_map": auto_map,
        "style": request.param,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(weights(), tmp_path / "model.safetensors")
    return tmp_path


def first_map() -> Tensor:
    """Of layer 0 by its definition, in float64: the embedding, the norm, and a softmax for each row."""
    held = {name: tensor.double() for name, tensor in weights().items()}
    states = held["embed_tokens.weight"][IDS]
    centred = states - states.mean(-1, keepdim=True)
    states = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    q, k = (states @ held[f"layers.0.self_attn.{side}_proj.weight"].T for side in "qk")
    q, k = (side.unflatten(-1, (HEADS, -1)).transpose(0, 1) for side in (q, k))
    found = torch.zeros(HEADS, len(IDS), len(IDS), dtype=torch.float64)
    for row in range(len(IDS)):
        scores = (q[:, row, None] * k[:, : row + 1]).sum(-1) / math.sqrt(WIDTH / HEADS)
        found[:, row, : row + 1] = scores.softmax(-1)
    return found


def test_each_style_is_seen_as_it_computes(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "maps.safetensors"
    ids = ",".join(map(str, IDS))
    report = attn.inspect_model(str(folder), trust_remote_code=True, token_ids=ids, save_maps=path)
    assert report.source["remote_code"] is True
    assert "2 attention layers" in report.headline
    saved = [tensor for _, tensor in sorted(load_file(path).items()) if tensor.is_floating_point()]
    ours = saved[0].reshape(HEADS, len(IDS), len(IDS)).double()
    torch.testing.assert_close(ours, first_map(), atol=1e-6, rtol=0)


def known(report: attn.Report) -> list[float]:
    """All but what says how far rounding went."""
    return [row.value for row in report.rows if row.value is not None and "error" not in row.metric]


def numbers_of(question: str, folder: Path, style: str) -> list[float]:
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"style": style}))
    ids = ",".join(map(str, IDS))
    return known(getattr(attn, question)(str(folder), trust_remote_code=True, token_ids=ids))


@pytest.mark.slow
@pytest.mark.parametrize("question", ["rank_collapse", "paths", "inspect_model"])
def test_the_style_makes_no_difference(question: str, folder: Path) -> None:
    """Parts switched off, exact numbers, paths: what is computed is the same function, however it is written."""
    style = json.loads((folder / "config.json").read_text())["style"]
    if style != STYLES[0]:
        assert numbers_of(question, folder, style) == pytest.approx(
            numbers_of(question, folder, STYLES[0]), rel=1e-5, abs=1e-7
        )
    else:
        found = attn.rank_collapse(str(folder), trust_remote_code=True, token_ids="1,5,9,2,5,7")
        assert {row.variant for row in found.rows} >= {"SAN", "SAN+MLP", "SAN+skip", "transformer"}


def test_its_code_runs_only_when_it_is_trusted(folder: Path) -> None:
    with pytest.raises(InputError, match="`trust_remote_code=True`"):
        attn.inspect_model(str(folder), random_tokens=5)
