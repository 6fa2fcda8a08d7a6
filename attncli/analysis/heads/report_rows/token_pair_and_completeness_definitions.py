"""Definitions of rows without a metric file: pairs of tokens, and how exact maps of linear layers
are."""

from attncli.records import Definition

PAIR = "token_pair"
COMPLETENESS = "completeness_error"

DEFINITIONS = {
    PAIR: Definition(
        "1",
        "The weight of a head's `rank`-th strongest pair: of the token `query` on the token `key`, by how far it lies above "
        "`uniform`, uniform attention over the keys that the query sees; each key once, with the query that looks at it most; `other_queries` is what the others give "
        "it on average.",
    ),
    COMPLETENESS: Definition(
        "1", "‖A v - y‖ / ‖y‖ of a linear layer: how far its maps times its values miss its output."
    ),
}
