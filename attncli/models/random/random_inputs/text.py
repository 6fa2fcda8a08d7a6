"""Inputs of models that read text."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from attncli.models.layer_sizes_from_config import read_config_value
from attncli.models.model_classes import iter_nested_configs
from attncli.models.random.random_inputs.input_sampler import InputSampler, Maker

MARKED, MARKED_PLACES = "image_embeds_position_mask", "latent_query_num"
"""Kosmos-2 marks image positions by a mask, not by an id; this attribute is their number."""


def make_input_ids(drawn: InputSampler) -> Tensor:
    codebooks = drawn.read_config_size("num_codebooks", default=1)
    if drawn.model_type == "kyutai_speech_to_text":
        return drawn.sample_token_ids(count_vocabulary_rows(drawn), 1, drawn.tokens, codebooks + 1)
    if drawn.model_type.startswith("musicgen") and "decoder_input_ids" not in drawn.names:
        return drawn.sample_token_ids(count_vocabulary_rows(drawn), codebooks, drawn.tokens)
    if drawn.model_type == "dia_decoder":
        return drawn.sample_token_ids(
            count_vocabulary_rows(drawn), 1, drawn.tokens, drawn.read_config_size("num_channels")
        )
    text = drawn.sample_token_ids(count_vocabulary_rows(drawn), 1, count_text_tokens(drawn))
    return torch.cat([make_ids_at_image_positions(drawn), text], dim=1)


def make_ids_at_image_positions(drawn: InputSampler) -> Tensor:
    """[item, position]: ids whose embeddings image features replace, where the model takes both."""
    if MARKED in drawn.names:
        return drawn.sample_token_ids(
            count_vocabulary_rows(drawn), 1, drawn.read_config_size(MARKED_PLACES)
        )
    token = next(iter_image_token_ids(drawn), None) if "pixel_values" in drawn.names else None
    if token is None:
        return torch.zeros(1, 0, dtype=torch.long)
    return torch.full((1, count_tokens_per_image(drawn)), token)


def iter_image_token_ids(drawn: InputSampler) -> Iterator[int]:
    for config in iter_nested_configs(drawn.config):
        for name in ("image_token_id", "image_token_index", "video_token_id"):
            found = read_config_value(config, name)
            if isinstance(found, int):
                yield found


def count_tokens_per_image(drawn: InputSampler) -> int:
    """Tokens per image: as many as its queries, in every frame of a video."""
    from attncli.models.random.random_inputs.images import FRAMES, FRAMES_FIRST_IMAGES

    if drawn.model_type == "pi0":
        return (drawn.read_config_size("image_size") // drawn.read_config_size("patch_size")) ** 2
    queries = drawn.read_config_size("num_query_tokens", default=0)
    return queries * (FRAMES if drawn.model_type in FRAMES_FIRST_IMAGES else 1)


def make_image_token_mask(drawn: InputSampler) -> Tensor:
    """[item, token]: whether an image's features replace the token."""
    places = drawn.read_config_size(MARKED_PLACES)
    return (torch.arange(places + drawn.tokens) < places).long().unsqueeze(0)


def count_vocabulary_rows(drawn: InputSampler) -> int:
    """Rows of the embedding, which some configs do not name."""
    try:
        rows = getattr(drawn.model.get_input_embeddings(), "num_embeddings", None)
    except NotImplementedError:  # a model of several texts, or of none
        rows = None
    if not isinstance(rows, int):
        return drawn.read_config_size("vocab_size", default=256)
    # one table may hold several codebooks
    return min(rows, drawn.read_config_size("vocab_size", default=rows))


def make_decoder_input_ids(drawn: InputSampler) -> Tensor:
    if drawn.model_type.startswith("musicgen"):
        decoder = drawn.config.decoder
        return drawn.sample_token_ids(decoder.vocab_size, decoder.num_codebooks, drawn.tokens)
    for name in ("decoder", "decoder_config", "text_config"):
        nested = getattr(drawn.config, name, None)
        if isinstance(nested, PreTrainedConfig) and hasattr(nested, "vocab_size"):
            channels = getattr(nested, "num_channels", None)
            shape = (1, drawn.tokens, channels) if drawn.model_type == "dia" else (1, drawn.tokens)
            return drawn.sample_token_ids(nested.vocab_size, *shape)
    return drawn.sample_token_ids(drawn.read_config_size("vocab_size"), 1, drawn.tokens)


def make_all_ones_or_causal_mask(drawn: InputSampler) -> Tensor:
    """[item, token] mask that hides nothing; submodules that add it directly to scores need [item, 1, token, token]."""
    if drawn.model_type.startswith("blt_"):
        least = torch.finfo(drawn.model.dtype).min
        ahead = torch.full((drawn.tokens, drawn.tokens), least, dtype=drawn.model.dtype)
        return ahead.triu(1)[None, None]
    return torch.ones(1, count_text_tokens(drawn), dtype=torch.long)


def count_text_tokens(drawn: InputSampler) -> int:
    """Tokens of a text, or of a decoder with one token per codebook, or of the context before one."""
    if "context_hidden_states" in drawn.names:
        return 2 * drawn.tokens
    if drawn.model_type in ("moshi_depth", "csm_depth_decoder_model"):
        return min(drawn.read_config_size("num_codebooks"), drawn.tokens)
    return drawn.tokens


PATCH = 3
"""Bytes of a patch."""


def read_document_count(drawn: InputSampler) -> int:
    return drawn.read_config_size("n_docs")


def make_token_boxes(drawn: InputSampler) -> Tensor:
    """[item, token, (left, top, right, bottom)], right of left and below top."""
    corners = torch.randint(0, 32, (1, drawn.tokens, 2), generator=drawn.generator)
    found = torch.cat([corners, corners + 8], dim=-1)
    return found.to(drawn.model.dtype) / 64 if drawn.model_type == "bros" else found


MAKERS: Mapping[str, Maker] = {
    "input_ids": make_input_ids,
    "decoder_input_ids": make_decoder_input_ids,
    "qformer_input_ids": lambda drawn: drawn.sample_token_ids(64, 1, drawn.tokens),
    "task_inputs": lambda drawn: drawn.sample_token_ids(
        64, 1, drawn.read_config_size("task_seq_len")
    ),
    "bbox": make_token_boxes,
    "attention_mask": make_all_ones_or_causal_mask,
    MARKED: make_image_token_mask,
    "classes_structure": lambda drawn: torch.tensor([1]),
    # documents retrieved for a question
    "context_input_ids": lambda drawn: drawn.sample_token_ids(
        count_vocabulary_rows(drawn), read_document_count(drawn), drawn.tokens
    ),
    "context_attention_mask": lambda drawn: torch.ones(
        read_document_count(drawn), drawn.tokens, dtype=torch.long
    ),
    "doc_scores": lambda drawn: drawn.sample_normal_floats(1, read_document_count(drawn)),
    # bytes gathered into patches
    "num_patches": lambda drawn: torch.tensor(drawn.tokens // PATCH),
    "patch_ids": lambda drawn: (torch.arange(drawn.tokens) // PATCH).clamp(
        max=drawn.tokens // PATCH - 1
    )[None],
}
