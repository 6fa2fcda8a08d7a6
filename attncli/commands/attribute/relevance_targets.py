"""The score that relevance explains: a class, a token of the vocabulary, or the state itself."""

import re
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from attncli.commands.attribute.token_position_option import remove_token_space_markers
from attncli.errors import InputError, UsageError
from attncli.models.inputs.tokenizing import Tokenizer, load_tokenizer
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.models.loading.loaded_model import LoadedModel

STATE, TOP = "state", "top"
INDEX = re.compile(r"\d{1,9}")


class TargetScore(NamedTuple):
    """A number of the output, and its name."""

    name: str
    score: float


def select_score_to_explain(
    checkpoint: LoadedModel, target: str, output: object, state: Tensor, position: int
) -> tuple[TargetScore, Tensor]:
    """The number itself too, to be differentiated."""
    if target == STATE:
        fixed = state.detach()
        return TargetScore("its own last state", 1.0), (state * fixed).sum() / fixed.square().sum()
    logits = select_logits_at_position(output, position)
    classes = read_class_names_of_head(checkpoint, len(logits))
    index = resolve_target_logit_index(checkpoint, target, logits, classes)
    score = logits[index]
    return TargetScore(
        format_target_class_or_token(checkpoint, index, classes), float(score)
    ), score


def select_logits_at_position(output: object, position: int) -> Tensor:
    """Select the logits of a text [1, class], or those at a position [1, token, class]."""
    logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() not in (2, 3) or len(logits) != 1:
        raise InputError(
            "the model has no head that gives a number for each class or token: explain the state itself, "
            f"`relevance='{STATE}'`."
        )
    if logits.dim() == 3 and position >= logits.shape[1]:
        raise InputError("the model gives no number at this token: `attribute` another one.")
    return logits[0] if logits.dim() == 2 else logits[0, position]


def read_class_names_of_head(checkpoint: LoadedModel, many: int) -> dict[int, str]:
    """Names of the classes, if the head classifies; empty for a vocabulary."""
    config = checkpoint.model.config
    if many == select_text_config(config).to_dict().get("vocab_size"):
        return {}
    named = getattr(config, "id2label", None) or {}
    return {int(index): str(name) for index, name in named.items()} if len(named) == many else {}


def resolve_target_logit_index(
    checkpoint: LoadedModel, target: str, logits: Tensor, classes: dict[int, str]
) -> int:
    if target == TOP:
        return int(logits.argmax())
    if INDEX.fullmatch(target):
        if int(target) >= len(logits):
            raise UsageError(
                f"`relevance={target!r}`: the head tells {len(logits):,} apart, 0 to {len(logits) - 1:,}."
            )
        return int(target)
    if classes:
        found = [index for index, name in classes.items() if name == target]
        if not found:
            raise UsageError(
                f"`relevance={target!r}` is no class: there are {', '.join(classes.values())}."
            )
        return found[0]
    return find_vocabulary_id_of_word(load_tokenizer(checkpoint), target)


def find_vocabulary_id_of_word(tokenizer: Tokenizer, target: str) -> int:
    """The id of a word of the vocabulary, with a space before it or not."""
    for text in (target, f" {target}"):
        encoded = tokenizer.encode(text, None)
        found = {
            each
            for each, label in zip(encoded.ids, encoded.labels, strict=True)
            if remove_token_space_markers(label) == remove_token_space_markers(target)
        }
        if len(found) == 1:
            return found.pop()
    raise UsageError(
        f"`relevance={target!r}` is no single token of the vocabulary: name one, or its id."
    )


def format_target_class_or_token(
    checkpoint: LoadedModel, index: int, classes: dict[int, str]
) -> str:
    if classes:
        return f"class {classes[index]}"
    return f"token {index} {decode_or_empty_without_tokenizer(lambda: decode_vocabulary_id(checkpoint, index))}".rstrip()


def decode_vocabulary_id(checkpoint: LoadedModel, index: int) -> str:
    return load_tokenizer(checkpoint).decode_each_token([index])[0]


def decode_or_empty_without_tokenizer(word: Callable[[], str]) -> str:
    """The text, or empty without a tokenizer."""
    try:
        return word()
    except InputError:
        return ""
