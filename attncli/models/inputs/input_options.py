"""Options for a model's input, checked before any heavy import."""

from dataclasses import dataclass

from attncli.errors import UsageError

TEXT_OPTIONS = ["text", "text_file", "token_ids"]
"""Options that name a text."""

MOST_SAMPLES = 10_000
"""All samples are drawn before the first is measured."""


@dataclass(frozen=True, slots=True)
class RequestedInput:
    """The input that the user requests; no option at all means the text that ships with the package."""

    texts: tuple[str, ...] = ()
    text_file: str | None = None
    """Texts are separated by blank lines, or as the file's ending implies. `-` is stdin."""
    token_ids: tuple[str, ...] = ()
    """Token ids of a text as `101,2023,102`, special tokens included, or @FILE for several texts."""
    random_tokens: int | None = None
    """Read random texts of this many tokens."""
    samples: int = 1
    """How many random texts or images to draw."""
    tokens: int | None = None
    """The longest text in tokens; longer ones are cut, their special tokens kept."""
    seed: int = 0
    own_texts: int = 1
    """How many of the package's own texts to read if no option names an input: 1 or 2."""


def refuse_impossible_input_options(options: RequestedInput) -> None:
    """Refuse impossible sizes and ids."""
    for name, size in (
        ("tokens", options.tokens),
        ("random_tokens", options.random_tokens),
        ("samples", options.samples),
    ):
        if size is not None and size < 1:
            raise UsageError(f"`{name}={size}`: it must be at least 1.")
    if options.token_ids:
        from attncli.models.inputs.token_id_lists import refuse_malformed_token_ids

        refuse_malformed_token_ids(options.token_ids)
    if options.samples > MOST_SAMPLES:
        raise UsageError(f"`samples={options.samples!r}`: it must be at most {MOST_SAMPLES:,}.")
