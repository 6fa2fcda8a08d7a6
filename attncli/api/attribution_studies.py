"""`attn inspect-model --attribute`: from the options to the study."""

from collections.abc import Callable, Sequence
from functools import partial

from attncli.api.model_path_studies import opened
from attncli.errors import UsageError, parameters
from attncli.gates import Condition, refuse_unmeasured
from attncli.limits import require_memory
from attncli.models.loading.room_needed import room_to_run
from attncli.models.sources import Source
from attncli.options.model_options import InputOptions, ModelOptions, refuse_without_a_model
from attncli.records import Report
from attncli.studies.heads.attribution import attribution
from attncli.studies.heads.attribution_rows import METRICS

STREAMS = 3
"""The state itself, what comes from the tokens, what comes from constants."""


def attribution_study(
    source: Source,
    token: str,
    top: int | None,
    others: Sequence[str],
    conditions: Sequence[Condition],
    model: ModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
) -> Callable[..., Report]:
    """`others`: names of given options that have nothing to say here."""
    if others:
        names = list(others)
        raise UsageError(
            f"{parameters(names)} is about heads: leave it out, or drop `attribute`.",
            idle=names,
            because=["attribute"],
        )
    refuse_without_a_model(source, [] if source.is_model else ["attribute"])
    refuse_unmeasured(conditions, METRICS)
    if top is not None and top < 1:
        raise UsageError(f"`top={top!r}`: it must be at least 1.")
    subject, texts = opened(source, model, inputs, tokens, seed)
    body = subject.checkpoint.body
    longest = max(text.tokens for text in texts)
    heads = vars(body.config).get("num_attention_heads", 1)
    needed = STREAMS * room_to_run(body, longest, 0) + room_to_run(body, longest, 0, heads)
    require_memory(needed, f"a text of {longest} tokens", "cut it with `tokens`")
    return partial(attribution, subject, texts, token, top)
