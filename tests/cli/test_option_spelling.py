"""Parameters in sentences become the options that one types; everything else stays as it is."""

import pytest

import attncli.cli.app  # noqa: F401 - enrols the commands
from attncli.cli.parameter_names_as_options import replace_parameters_by_options


@pytest.mark.parametrize(
    ("in_python", "typed"),
    [
        ("lower `tokens` or `key_width`", "lower --tokens or --key-width"),
        ("use `dtype='float64'`", "use --dtype float64"),
        ("`skip=False` or `exact=True`", "--no-skip or --exact"),
        ("as in `layers=5, heads=1`", "as in --layers 5 --heads 1"),
        ("`sweep='length=...'`", "--sweep length=..."),
        ("name one as `source`", "name one as SOURCE"),
        ("`inspect_model(with_random_init=True)`", "attn inspect-model --with-random-init"),
        ("`head_capacity(head=...)`", "attn head-capacity --head …"),
        ("`approximate(save_module=FILE)`", "attn approximate -o FILE"),
        ("`generate_network(FILE)`", "attn generate network -o FILE"),
        ("`rank_collapse` and `paths`", "attn rank-collapse and attn paths"),
        ("`token_ids='1,2`3'`", "--token-ids 1,2`3"),
        ("`pattern='it\\'s'`: no", "--pattern it's: no"),
    ],
)
def test_parameters_and_questions(in_python: str, typed: str) -> None:
    assert replace_parameters_by_options(in_python) == typed


@pytest.mark.parametrize(
    "text",
    [
        "`x` has 3 rows",
        "`layrs=3`",
        "`attn list metrics`",
        "`tokens`s`"[:4],
        "`",
        "``",
        "`(((`",
        "`os.system('x')`",
        "`1 is 1`",
        "`" + "(" * 5000 + "`",
    ],
)
def test_other_words_in_backticks_stay(text: str) -> None:
    assert replace_parameters_by_options(text) == text
