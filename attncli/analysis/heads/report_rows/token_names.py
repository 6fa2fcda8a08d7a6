"""The words along the sides of an attention's maps: a decoder reads other tokens than its encoder."""

from collections.abc import Sequence
from typing import NamedTuple

from attncli.capture import AttentionSite
from attncli.models.inputs.model_input import ModelInput


class TokenNames(NamedTuple):
    """Token names of one text; empty where tokens have no names."""

    own: Sequence[str]
    decoder: Sequence[str] = ()
    """Input tokens of an encoder-decoder's decoder: the same, shifted."""

    @classmethod
    def of_text(cls, text: ModelInput) -> "TokenNames":
        return cls(text.labels, text.decoder_labels)

    def names_of_queries_and_keys(
        self, site: AttentionSite, queries: int, keys: int
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Names of the queries and of the keys; empty for a side whose length differs from the
        text's."""
        own = self.decoder if self.decoder and "decoder" in site.name else self.own
        looked_at = own if site.is_self_attention or site.is_differential_map else self.own
        return (own if len(own) == queries else (), looked_at if len(looked_at) == keys else ())
