"""What relevance explains: a class, a token of the vocabulary, or the state itself."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from attncli.commands.attribute.token_choices import piece
from attncli.errors import InputError, UsageError
from attncli.models.inputs.tokenizing import Tokenizer, tokenizer_of
from attncli.models.loading.load import Checkpoint
from attncli.models.text_configs import text_config

STATE, TOP = "state", "top"
INDEX = re.compile(r"\d{1,9}")


class Explained(NamedTuple):
    """A number of the output, and what it is called."""

    name: str
    score: float


def chosen_score(
    checkpoint: Checkpoint, target: str, output: Any, state: Tensor, position: int
) -> tuple[Explained, Tensor]:
    """The number itself too, to be differentiated."""
    if target == STATE:
        fixed = state.detach()
        return Explained("its own last state", 1.0), (state * fixed).sum() / fixed.square().sum()
    logits = logits_at(output, position)
    classes = classes_of(checkpoint, len(logits))
    index = index_of(checkpoint, target, logits, classes)
    score = logits[index]
    return Explained(name_of(checkpoint, index, classes), float(score)), score


def logits_at(output: Any, position: int) -> Tensor:
    """Of the classes of a text [1, class], or those at a position [1, token, class]."""
    logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.dim() not in (2, 3) or len(logits) != 1:
        raise InputError(
            "the model has no head that gives a number for each class or token: explain the state itself, "
            f"`relevance='{STATE}'`."
        )
    if logits.dim() == 3 and position >= logits.shape[1]:
        raise InputError("the model gives no number at this token: `attribute` another one.")
    return logits[0] if logits.dim() == 2 else logits[0, position]


def classes_of(checkpoint: Checkpoint, many: int) -> dict[int, str]:
    """Names of the classes, where these are what the head tells apart; none in front of a vocabulary."""
    config = checkpoint.model.config
    if many == text_config(config).to_dict().get("vocab_size"):
        return {}
    named = getattr(config, "id2label", None) or {}
    return {int(index): str(name) for index, name in named.items()} if len(named) == many else {}


def index_of(checkpoint: Checkpoint, target: str, logits: Tensor, classes: dict[int, str]) -> int:
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
            raise UsageError(f"`relevance={target!r}` is no class: there are {', '.join(classes.values())}.")  # fmt: skip
        return found[0]
    return token_index(tokenizer_of(checkpoint), target)


def token_index(tokenizer: Tokenizer, target: str) -> int:
    """The id of a word of the vocabulary, with a space before it or not."""
    for text in (target, f" {target}"):
        encoded = tokenizer.encode(text, None)
        found = {
            each
            for each, label in zip(encoded.ids, encoded.labels, strict=True)
            if piece(label) == piece(target)
        }
        if len(found) == 1:
            return found.pop()
    raise UsageError(
        f"`relevance={target!r}` is no single token of the vocabulary: name one, or its id."
    )


def name_of(checkpoint: Checkpoint, index: int, classes: dict[int, str]) -> str:
    if classes:
        return f"class {classes[index]}"
    return f"token {index} {quietly(lambda: word_of(checkpoint, index))}".rstrip()


def word_of(checkpoint: Checkpoint, index: int) -> str:
    return tokenizer_of(checkpoint).words([index])[0]


def quietly(word: Callable[[], str]) -> str:
    """Without a tokenizer there are no words."""
    try:
        return word()
    except InputError:
        return ""
