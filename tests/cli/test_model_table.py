"""[model] of a configuration file: options of every question about a model."""

from pathlib import Path

import pytest
from commands import attn

TINY = "random:bert?layers=2&width=16&heads=2"
SMALL = ("--random-tokens", "6", "--format", "json")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "attn.toml"


def shown(config: Path, *line: str) -> list[str]:
    """What `config show` says, without the file's name."""
    outcome = attn("config", "show", "--config", str(config), *line)
    assert outcome.code == 0, outcome.err
    return outcome.out.replace(f"{config}, ", "").splitlines()


@pytest.mark.parametrize(
    "line",
    [
        f"rank-collapse {TINY}",
        f"inspect-model {TINY}",
        f"dispersion {TINY} --lengths 4:8",
        f"attribute {TINY} --token 0",
        f"paths {TINY}",
        f"sensitivity {TINY}",
    ],
)
def test_one_table_is_for_every_question_about_a_model(config: Path, line: str) -> None:
    config.write_text('[model]\ndtype = "float64"\nsamples = 2\n')
    assert shown(config, *line.split()) == [
        "model --dtype = 'float64'  (line 2): applies",
        "model --samples = 2  (line 3): applies",
    ]


@pytest.mark.slow
def test_a_question_without_a_model_leaves_the_table_out(config: Path) -> None:
    """Also a key that networks have, too."""
    config.write_text("[model]\ntokens = 6\n")
    assert shown(config, "rank-collapse", TINY) == ["model --tokens = 6  (line 2): applies"]
    assert shown(config, "rank-collapse") == [
        "model --tokens = 6  (line 2): left out: --tokens goes with a model: name one as SOURCE."
    ]
    assert shown(config, "approximate", "--pattern", "window:3") == [
        "model --tokens = 6  (line 2): left out: approximate has no --tokens"
    ]
    assert shown(config, "reproduce", "circle") == ["nothing is set"]
    line = ("rank-collapse", "--layers", "2", "--seeds", "1")
    assert attn(*line, "--config", str(config)).out == attn(*line).out


def test_a_key_that_a_command_lacks_is_left_out_of_it(config: Path) -> None:
    config.write_text('[model]\ntext = "One."\nrevision = "main"\n')
    assert shown(config, "inspect-weights", "org/name") == [
        "model --revision = 'main'  (line 3): applies",
        "model --text = ['One.']  (line 2): left out: inspect-weights has no --text",
    ]


def test_the_table_of_the_command_goes_before_it(config: Path) -> None:
    """Key by key, and where two keys exclude each other."""
    config.write_text(
        '[model]\ndtype = "float64"\ntext = "One."\n\n'
        '[rank-collapse]\ndtype = "float32"\nrandom-tokens = 6\n'
    )
    assert shown(config, "rank-collapse", TINY) == [
        "rank-collapse --dtype = 'float32'  (line 6): applies",
        "model --text = ['One.']  (line 3): left out: "
        "--text and --random-tokens exclude each other: leave one out.",
        "rank-collapse --random-tokens = 6  (line 7): applies",
    ]
    assert shown(config, "paths", TINY)[0] == "model --dtype = 'float64'  (line 2): applies"
    assert shown(config) == [
        "rank-collapse --dtype = 'float32'  (line 6)",
        "model --dtype = 'float64'  (line 2)",
        "model --text = ['One.']  (line 3)",
        "rank-collapse --random-tokens = 6  (line 7)",
    ]


def test_two_keys_of_the_table_that_exclude_each_other_are_an_error(config: Path) -> None:
    config.write_text('[model]\ntext = "One."\nrandom-tokens = 6\n')
    outcome = attn("paths", TINY, "--config", str(config))
    assert outcome.code == 2
    assert f"{config}, line 2, {config}, line 3: --text and --random-tokens exclude" in outcome.err
    assert attn("config", "show", "--config", str(config)).code == 0


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("[model]\n\ndtipe = 1\n", "line 3: unknown option of models 'dtipe': did you mean 'dtype'?"),
        ("[model]\nseeds = 3\n", "line 2: unknown option of models 'seeds': "),
        ("model = 3\n", "line 1: 'model' must be a table of options."),
        ("[model]\ntokens = 'six'\n", "line 2: model --tokens cannot be 'six': it must be a whole number."),
        ("[model]\ntrust-remote-code = true\n", "line 2: --trust-remote-code lets a checkpoint run code"),
        ("[modle]\n", "line 1: unknown command 'modle': did you mean 'model'?"),
    ],
)  # fmt: skip
def test_keys_that_no_question_has_are_refused_by_name(
    config: Path, table: str, sentence: str
) -> None:
    config.write_text(table)
    outcome = attn("rank-collapse", TINY, "--config", str(config))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"attn: {config}, {sentence}" in outcome.err


def test_pyproject_spells_it_below_its_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.attn.model]\ntokens = 6\n")
    monkeypatch.chdir(tmp_path)
    assert attn("config", "show", "rank-collapse", TINY).out == (
        "model --tokens = 6  (pyproject.toml, line 2): applies\n"
    )


@pytest.mark.slow
def test_the_run_is_that_of_the_same_options_typed(config: Path) -> None:
    config.write_text('[model]\nrandom-tokens = 6\ndtype = "float64"\n')
    line = ("inspect-model", TINY, "--metric", "entropy", "--format", "csv")
    by_table = attn(*line, "--config", str(config))
    typed = attn(*line, "--random-tokens", "6", "--dtype", "float64")
    assert (by_table.code, by_table.out) == (0, typed.out)
    assert typed.out != attn(*line, "--random-tokens", "6").out


@pytest.mark.slow
def test_an_error_of_the_run_names_the_line_of_the_table(config: Path) -> None:
    config.write_text('[model]\ndevice = "cuda:9"\n')
    outcome = attn("inspect-model", TINY, *SMALL, "--config", str(config))
    assert outcome.code == 2
    assert outcome.err.startswith(f"attn: {config}, line 2: --device cuda:9: this machine has ")
