"""Queries and keys of every vocabulary token in a head of the first layer, at every position, from
the model's code."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.model_structure.module_paths import find_module_by_path_suffix
from attncli.errors import InputError, UsageError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.inputs_for_requested_queries import project_inputs_to_queries_and_keys
from attncli.head_weights.trained_head import Head
from attncli.models.inputs.model_input import WORDS
from attncli.models.inputs.vocabulary_and_positions import find_max_positions, find_vocabulary_size
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.models.loading.loaded_model import LoadedModel
from attncli.progress import Progress
from attncli.tolerances import TOKEN_ALONE

Array = NDArray[np.float64]

SEARCH_COST, TABLE_COST = 5e9, 5e10
"""Most products for a sweep of the search, and for the table; they limit the number of candidates.
"""
BATCH = 1 << 26
"""Bytes of states per batch."""
SPECIAL = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
    "decoder_start_token_id",
)
"""Of these models make more than an embedding, such as the end of the text."""


class StopForward(Exception):
    """The head's input is known; the rest of the pass is not needed."""


@dataclass(frozen=True)
class TokenTable:
    """Queries and keys as the head's logits multiply them: turned by position, the scale shared out."""

    ids: NDArray[np.int64]
    """Of the candidates."""
    queries: NDArray[np.float32]
    """[candidate, position, d]"""
    keys: NDArray[np.float32]
    of: int
    """Rows of the model's vocabulary."""


def build_token_query_key_table(
    checkpoint: LoadedModel, head: Head, length: int, seed: int, progress: Progress
) -> TokenTable:
    """Build the table for as many tokens as fit, drawn from the vocabulary."""
    refuse_text_beyond_positions(checkpoint, length)
    reader = find_query_projection(checkpoint, head)
    rng = np.random.default_rng([seed, length])
    known = require_vocabulary_size(checkpoint)
    ids = sample_candidate_tokens(checkpoint, head, length, rng)
    queries, keys = (
        np.empty((len(ids), length, head.query_key_width), np.float32) for _ in range(2)
    )
    size = max(1, BATCH // (8 * length * len(head.w_q)))
    for first in range(0, len(ids), size):
        progress(first, len(ids), "tokens")
        part = ids[first : first + size]
        alike = np.repeat(part[:, None], length, axis=1)
        for place, x in enumerate(
            capture_head_inputs_of_texts(checkpoint, reader, alike), start=first
        ):
            queries[place], keys[place] = compute_scaled_queries_and_keys(head, x)
    table = TokenTable(ids, queries, keys, known)
    require_context_free_queries_and_keys(checkpoint, reader, head, table, rng)
    return table


def require_head_of_first_layer(head: Head) -> None:
    """Refuse deeper layers: only the first layer's input follows from a token and its position."""
    layer = head.description["layer"]
    if layer != 0:
        raise UsageError(
            f"`inputs` embeddings is for heads of layer 0: what layer {layer} reads are states of the layer before, which "
            "depend on all tokens.",
            about=["inputs"],
        )


def refuse_text_beyond_positions(checkpoint: LoadedModel, length: int) -> None:
    most = find_max_positions(checkpoint.model)
    if most is not None and length > most:
        raise UsageError(
            f"the model has positions for {most} tokens, not {length}: lower `length`."
        )


def require_vocabulary_size(checkpoint: LoadedModel) -> int:
    known = find_vocabulary_size(checkpoint.model)
    if known is None:
        raise InputError(
            f"{type(checkpoint.model).__name__} has no table of words, so there are no embeddings to draw from."
        )
    return known


def sample_candidate_tokens(
    checkpoint: LoadedModel, head: Head, length: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    config = select_text_config(checkpoint.model.config)
    special = {getattr(config, name, None) for name in SPECIAL}
    ids = np.array(
        [each for each in range(require_vocabulary_size(checkpoint)) if each not in special]
    )
    hidden, d = head.w_q.shape
    most = int(min(SEARCH_COST / (length**2 * d), TABLE_COST / (2 * length * hidden * d)))
    if len(ids) > most:
        ids = np.sort(rng.choice(ids, size=max(most, length), replace=False))
    return ids.astype(np.int64)


def find_query_projection(checkpoint: LoadedModel, head: Head) -> nn.Module:
    """The module that computes the head's queries."""
    if checkpoint.folder is None:
        raise InputError("a random model has no files: save it, and give its folder.")
    template = HeadConfig.read_config(checkpoint.folder).family.query.format(l=0)
    return find_module_by_path_suffix(checkpoint.model, template)


@contextmanager
def capture_module_input(module: nn.Module) -> Iterator[list[Tensor]]:
    """Capture the module's input and stop the forward pass there."""
    seen: list[Tensor] = []

    def capture_input(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen.append(args[0].detach())
        raise StopForward

    with hook_forwards([(module, capture_input)]), suppress(StopForward):
        yield seen


def capture_head_inputs_of_texts(
    checkpoint: LoadedModel, reader: nn.Module, ids: NDArray[np.int64]
) -> Array:
    """[text, token, feature]: the head's input for texts [text, token]."""
    with capture_module_input(reader) as seen, torch.no_grad():
        checkpoint.model_without_head(**{WORDS: torch.from_numpy(ids).to(checkpoint.model.device)})
    if not seen or seen[0].dim() != 3 or seen[0].shape[:2] != ids.shape:
        raise InputError("the head's input is not one state for each token of the text.")
    found: Array = seen[0].cpu().double().numpy()
    return found


def compute_scaled_queries_and_keys(head: Head, x: Array) -> tuple[Array, Array]:
    """Queries and keys of a text, scaled so that their products are the head's logits."""
    queries, keys = project_inputs_to_queries_and_keys(head, x, "float64")
    root = np.sqrt(head.scale)
    return queries * root, keys * root


def require_context_free_queries_and_keys(
    checkpoint: LoadedModel,
    reader: nn.Module,
    head: Head,
    table: TokenTable,
    rng: np.random.Generator,
) -> None:
    """Refuse heads in which a token's query or key depends on its neighbours."""
    length = table.queries.shape[1]
    chosen = rng.integers(len(table.ids), size=length)
    x = capture_head_inputs_of_texts(checkpoint, reader, table.ids[chosen][None])[0]
    for mixed, alone in zip(
        compute_scaled_queries_and_keys(head, x), (table.queries, table.keys), strict=True
    ):
        picked = alone[chosen, np.arange(length)]
        if np.abs(mixed - picked).max() > TOKEN_ALONE.tolerance_for_dtype() * np.abs(picked).max():
            raise InputError(
                "what this model's first layer reads of a token depends on its neighbours, which `inputs` embeddings "
                "does not support."
            )


def compute_queries_and_keys_of_text(
    checkpoint: LoadedModel, head: Head, ids: Sequence[int]
) -> tuple[Array, Array]:
    """Queries and keys of the head on this very text, in float64."""
    row = np.array([list(ids)], dtype=np.int64)
    x = capture_head_inputs_of_texts(checkpoint, find_query_projection(checkpoint, head), row)[0]
    return compute_scaled_queries_and_keys(head, x)
