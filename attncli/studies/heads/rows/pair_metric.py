"""What a row with a pair of tokens is called and says."""

from attncli.records import Definition

PAIR = "token_pair"
DEFINITION = Definition(
    "1",
    "The weight of a head's `rank`-th strongest pair: of the token `query` on the token `key`, by how far it lies above "
    "`uniform`, even attention over the keys that the query sees; each key once, with the query that looks at it most.",
)
