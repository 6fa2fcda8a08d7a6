"""A transformer of attention alone, with a label for every token: BERT's attention blocks without its MLPs.

Every block is LN(x + Attention(x)), as in the published experiments. The classifier has no bias, so that the sum of a
few paths is judged by its direction, whatever its size.
"""

import torch
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertAttention

from attncli.commands.reproduce.tasks import Sizes, Task


class TokenEmbedding(nn.Module):
    """Embeds tokens and their positions, normalised."""

    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        states: Tensor = self.norm(self.token(tokens) + self.place.weight)
        return states


class PointEmbedding(nn.Module):
    """Embeds points of the plane through two layers, without positions: they are a set."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(2, width)
        self.second = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, points: Tensor) -> Tensor:
        states: Tensor = self.norm(self.second(nn.functional.gelu(self.first(points))))
        return states


class TokenClassifier(nn.Module):
    """Embedding, blocks of attention, and a classifier of every token."""

    def __init__(self, task: Task, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.embedding = (
            PointEmbedding(width)
            if task.vocabulary is None
            else TokenEmbedding(task.vocabulary, task.length, width)
        )
        config = BertConfig(
            hidden_size=width,
            num_attention_heads=sizes.heads,
            num_hidden_layers=sizes.layers,
            hidden_dropout_prob=task.dropout,
            attention_probs_dropout_prob=task.dropout,
        )
        config._attn_implementation = "eager"
        attention: type[nn.Module] = BertAttention
        self.blocks = nn.ModuleList(attention(config) for _ in range(sizes.layers))
        self.drop = nn.Dropout(task.dropout)
        self.classifier = nn.Linear(width, task.labels, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [sequence, token, label]."""
        logits: Tensor = self.classifier(self.compute_final_states(inputs))
        return logits

    def compute_final_states(self, inputs: Tensor) -> Tensor:
        """The last block's output [sequence, token, feature]."""
        states: Tensor = self.drop(self.embedding(inputs))
        for block in self.blocks:
            states = block(states)[0]
        return states


def build_token_classifier(task: Task, sizes: Sizes, seed: int) -> TokenClassifier:
    """With random weights, drawn as torch draws those of a new layer; the same seed gives the same ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return TokenClassifier(task, sizes)
