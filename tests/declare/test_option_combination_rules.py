"""What holds of the options that are typed and set, by what is declared of each."""

from pathlib import Path

import pytest

from attncli.declare.option_combination_rules import (
    RunSource,
    SetOption,
    find_model_source_of_run,
    is_config_of_image_or_audio_model,
    refuse_or_drop_inapplicable_options,
)
from attncli.declare.option_declarations import (
    ANY_MODEL,
    NETWORKS,
    SYNTHETIC,
    Applies,
    is_matching_option_value,
)
from attncli.errors import UsageError
from attncli.model_and_file_sources import Source

RULES = {
    "plain": (),
    "dtype": (Applies(to=ANY_MODEL),),
    "seeds": (Applies(to=SYNTHETIC),),
    "mask": (Applies(to=SYNTHETIC),),
    "gates": (Applies(to=NETWORKS), Applies(excludes=("sweep",), why="{name} beside {other}.")),
    "sweep": (Applies(to=SYNTHETIC, why="{setting} makes {source} anew."),),
    "width": (Applies(excludes=("sweep:width", "inputs")),),
    "blocks": (Applies(needs=("metric:angle", "metric:steps")),),
    "metric": (),
    "top": (Applies(needs=("blocks",)),),
    "format": (Applies(excludes=("plot:terminal",), unless=("table",)),),
    "plot": (),
    "by": (Applies(to=ANY_MODEL, unless=("head",)),),
    "head_alone": (Applies(needs=("head",)),),
}
MODEL, NETWORK, NOTHING = (
    RunSource(Source(kind, name), kind)  # type: ignore[arg-type]
    for kind, name in (("random", "bert"), ("network", "net.safetensors"), ("synthetic", ""))
)


def typed(**values: object) -> list[SetOption]:
    return [SetOption(name, value) for name, value in values.items()]


def set_elsewhere(**values: object) -> list[SetOption]:
    return [SetOption(name, value, f"attn.toml, line {line}") for line, (name, value) in enumerate(values.items(), 1)]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "subject", "sentence", "about"),
    [
        ({"seeds": 2}, MODEL, "`seeds` goes with synthetic networks: random:bert is a model.", ["seeds"]),
        ({"mask": "x", "seeds": 2}, MODEL, "`mask`, `seeds` go with synthetic networks: random:bert is a model.", ["mask", "seeds"]),
        ({"dtype": "x"}, NOTHING, "`dtype` goes with a model: name one as `source`.", ["dtype"]),
        ({"dtype": "x"}, NETWORK, "`dtype` goes with a model: net.safetensors is a network file.", ["dtype"]),
        ({"seeds": 2}, NETWORK, "`seeds` cannot be changed: net.safetensors fixes it.", ["seeds"]),
        ({"sweep": "a=1:2"}, NETWORK, "`sweep='a=1:2'` makes net.safetensors anew.", ["sweep"]),
        ({"sweep": "a=1:2", "gates": True}, NOTHING, "`gates` beside `sweep`.", ["sweep", "gates"]),
        ({"gates": True, "sweep": "a=1:2"}, NOTHING, "`gates` beside `sweep`.", ["gates", "sweep"]),
        ({"width": 3, "sweep": "width=1:2"}, NOTHING, "`sweep` and `width` exclude each other: leave one out.", ["width", "sweep"]),
        ({"blocks": 3}, NOTHING, "`blocks` goes with `metric`: add one.", ["blocks"]),
        ({"blocks": 3, "metric": ["depth"]}, NOTHING, "`blocks` goes with `metric`: add one.", ["blocks"]),
        ({"format": "json", "plot": "terminal"}, NOTHING, "`format` and `plot` exclude each other: leave one out.", ["format", "plot"]),
        ({"width": 3, "inputs": 1}, NOTHING, "`width` and `inputs` exclude each other: leave one out.", ["width", "inputs"]),
        ({"by": "steps"}, NOTHING, "`by` goes with a model: name one as `source`.", ["by"]),
    ],
)  # fmt: skip
def test_what_is_typed_satisfies_all_that_is_declared(
    given: dict[str, object], subject: RunSource, sentence: str, about: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_or_drop_inapplicable_options(RULES, typed(**given), subject)
    assert (str(caught.value), list(caught.value.about)) == (sentence, about)


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"seeds": 2}, NOTHING),
        ({"seeds": 2, "dtype": "x"}, None),
        ({"width": 3, "sweep": "layers=1:2"}, NOTHING),
        ({"blocks": 3, "metric": ["depth,angle"]}, MODEL),
        ({"format": "table", "plot": "terminal"}, NOTHING),
        ({"format": "json", "plot": "curves.png"}, NOTHING),
        ({"by": "head"}, NOTHING),
        ({"head_alone": 1}, NOTHING),
    ],
)
def test_what_fits_holds(given: dict[str, object], subject: RunSource | None) -> None:
    settled = refuse_or_drop_inapplicable_options(RULES, typed(**given), subject)
    assert (settled.values, settled.left_out) == (given, {})


def test_defaults_that_do_not_fit_are_left_out_with_the_reason() -> None:
    defaults = set_elsewhere(seeds=3, plain=1, width=4, blocks=2, top=1)
    settled = refuse_or_drop_inapplicable_options(RULES, [*defaults, *typed(dtype="x")], MODEL)
    assert settled.values == {"dtype": "x", "plain": 1, "width": 4}
    assert settled.left_out == {
        "seeds": "`seeds` goes with synthetic networks: random:bert is a model.",
        "blocks": "`blocks` goes with `metric`: add one.",
        "top": "`top` goes with `blocks`: add one.",
    }


def test_what_is_typed_goes_before_a_default_on_either_side() -> None:
    for default, said in (
        ({"gates": True}, {"sweep": "a=1:2"}),
        ({"sweep": "a=1:2"}, {"gates": True}),
    ):
        settled = refuse_or_drop_inapplicable_options(
            RULES, [*set_elsewhere(**default), *typed(**said)], NOTHING
        )
        assert (settled.values, list(settled.left_out)) == (said, list(default))


def test_a_default_may_be_what_something_typed_needs() -> None:
    given = [*set_elsewhere(metric=["angle"]), *typed(blocks=2)]
    assert refuse_or_drop_inapplicable_options(RULES, given, NOTHING).left_out == {}


def test_defaults_that_exclude_each_other_are_an_error_with_both_lines() -> None:
    with pytest.raises(UsageError) as caught:
        refuse_or_drop_inapplicable_options(
            RULES, set_elsewhere(gates=True, plain=1, sweep="a=1:2"), NOTHING
        )
    assert str(caught.value) == "attn.toml, line 1, attn.toml, line 3: `gates` beside `sweep`."
    assert caught.value.about == ("gates", "sweep")


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [("window:3", "window", True), ("windows", "window", False), (False, "False", True), (["a,b", "c"], "b", True), ([], "b", False)],
)  # fmt: skip
def test_values_by_their_beginning(value: object, text: str, expected: bool) -> None:
    assert is_matching_option_value(value, text) is expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('{"model_type": "vit", "image_size": 8}', True),
        ('{"model_type": "ast", "num_mel_bins": 8}', True),
        ('{"model_type": "bert", "vocab_size": 8}', False),
        ('{"model_type": "clip", "text_config": {}, "image_size": 8}', False),
        ('{"model_type": "new"}', False),
        ("[]", False),
        ("{", False),
    ],
)
def test_a_folder_that_reads_no_words(tmp_path: Path, config: str, expected: bool) -> None:
    (tmp_path / "config.json").write_text(config)
    assert is_config_of_image_or_audio_model(tmp_path) is expected
    found = find_model_source_of_run("inspect-model", {"source": str(tmp_path)})
    assert found is not None
    assert found.kind == ("wordless" if expected else "folder")
