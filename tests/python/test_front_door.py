"""What `import attncli` offers is what the commands offer: the same options, defaults, numbers and errors."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import attn as command
from commands import attn_program
from small_checkpoints import saved

import attncli as attn
from attncli.cli.app import build_app
from attncli.cli.command_execution import ProcessOptions
from attncli.cli.command_tree import iterate_commands
from attncli.cli.parameter_names_as_options import replace_parameters_by_options
from attncli.declare.command_table import COMMANDS
from attncli.render.json import json as as_json

SMALL: dict[str, Any] = {"layers": 2, "tokens": 5, "width": 8, "heads": 2, "seeds": 2}
BERT = "random:bert?layers=2&width=16&heads=2"
QUESTIONS: dict[str, tuple[Any, str, tuple[str, ...], dict[str, Any]]] = {
    "collapse": (attn.rank_collapse, "rank-collapse", (), SMALL),
    "collapse, switches": (attn.rank_collapse, "rank-collapse", (), {**SMALL, "skip": False}),
    "collapse, sizes": (
        attn.rank_collapse,
        "rank-collapse",
        (),
        {"sweep": "tokens=4:16", "layers": 1, "width": 8, "heads": 2, "seeds": 2},
    ),
    "collapse of a model": (
        attn.rank_collapse,
        "rank-collapse",
        (BERT,),
        {"random_tokens": 9, "variants": ["SAN", "transformer"]},
    ),
    "heads": (
        attn.inspect_model,
        "inspect-model",
        (BERT,),
        {"random_tokens": 9, "metric": ["entropy", "sink"], "with_random_init": True},
    ),
    "attribution": (attn.attribute, "attribute", (BERT,), {"random_tokens": 9, "token": -1}),
    "relevance": (
        attn.attribute,
        "attribute",
        ("./model",),
        {"token_ids": "1,2,3", "token": -1, "relevance": "top"},
    ),
    "dispersion": (
        attn.dispersion,
        "dispersion",
        (BERT,),
        {"lengths": "4:16", "metric": "entropy"},
    ),
    "sensitivity": (
        attn.sensitivity,
        "sensitivity",
        (BERT,),
        {"random_tokens": 6, "directions": 4},
    ),
    "paths": (attn.paths, "paths", (), SMALL),
    "paths, counted": (attn.count_paths, "count-paths", (), {"layers": 4, "heads": 3}),
    "paths of a model, counted": (attn.count_paths, "count-paths", ("./model",), {}),
    "paths of a model": (attn.paths, "paths", (BERT,), {"random_tokens": 9, "by": "head"}),
    "fit": (
        attn.approximate,
        "approximate",
        (),
        {"pattern": ["window:3", "previous"], "length": 16, "method": "learned"},
    ),
    "collapse, exactly": (
        attn.rank_collapse,
        "rank-collapse",
        (BERT,),
        {"random_tokens": 9, "exact": True, "sub_blocks": True, "variants": "SAN"},
    ),
    "collapse of a file": (attn.rank_collapse, "rank-collapse", ("net.safetensors",), {}),
    "circle": (
        attn.reproduce.circle,
        "reproduce circle",
        (),
        {
            "train_steps": 3,
            "recurrence": 4,
            "width": 8,
            "seeds": 1,
            "variants": "SAN",
        },
    ),
    "heads, shuffled": (
        attn.inspect_model,
        "inspect-model",
        (BERT,),
        {"random_tokens": 9, "metric": "sink", "with_shuffled_text": True, "layers": [0], "top": 1},
    ),
    "heads of maps": (
        attn.inspect_maps,
        "inspect-maps",
        ("maps.safetensors",),
        {"metric": "all"},
    ),
    "weights": (attn.inspect_weights, "inspect-weights", ("./model",), {"layers": 0}),
    "paths of a file": (attn.paths, "paths", ("net.safetensors",), {"sample": 3}),
    "single paths of a model": (attn.paths, "paths", (BERT,), {"random_tokens": 9, "path": "1,0"}),
    "paths of a task": (
        attn.reproduce.sort,
        "reproduce sort",
        (),
        {"train_steps": 2, "layers": 2, "heads": 2, "width": 8, "seeds": 1},
    ),
    "ranks of heads": (
        attn.reproduce.rank_heads,
        "reproduce rank-heads",
        (),
        {"train_steps": 2, "dimension": 4, "ranks": "1,4", "heads_times_rank": "4", "seeds": 1},
    ),
    "fits by width": (
        attn.approximate,
        "approximate",
        (),
        {
            "pattern": "permutation",
            "sweep": "length=8:32",
            "method": "cyclic",
            "total_variation": 0.999,
        },
    ),
    "fits by logits": (
        attn.approximate,
        "approximate",
        (),
        {
            "pattern": "previous",
            "length": 6,
            "frontier": "2",
            "method": "cyclic",
            "total_variation": 0.999,
        },
    ),
    "fit of a head": (
        attn.head_capacity,
        "head-capacity",
        ("./model",),
        {"pattern": "previous", "length": 6, "head": "0.1"},
    ),
    "fit verified": (attn.verify_fit, "verify-fit", ("fit.safetensors",), {}),
    "what moved": (
        attn.compare,
        "compare",
        ("old.json", "new.json"),
        {"top": 3, "family_wise": 0.05},
    ),
    "what moved between models": (
        attn.compare,
        "compare",
        ("net.safetensors", "other.safetensors"),
        {"by": "rank-collapse --variants SAN"},
    ),
}
ASKED = {
    **{
        name: getattr(attn, name)
        for name in attn.PUBLIC
        if hasattr(getattr(attn, name), "with_groups")
    },
    **{f"reproduce_{name}": getattr(attn.reproduce, name) for name in dir(attn.reproduce)},
}
"""Every question that is declared once for Python and for the command line."""
WITH_INPUTS = ("inspect_model", "rank_collapse", "paths", "dispersion", "attribute", "sensitivity")
"""Functions that take states or ids for a live module."""
SLOW = ("what moved between models", "fit", "fits by logits", "paths of a task")
"""Questions that start processes."""


def python_name(path: tuple[str, ...]) -> str:
    return "_".join(path).replace("-", "_")


def typed(keywords: dict[str, Any]) -> list[str]:
    """The keywords as a command line spells them."""
    words = []
    for name, value in keywords.items():
        if name == "source":
            words.append(value)
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [f"--{flag}", str(each)]
    return words


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with networks, their reports, maps, a fit and a model."""
    folder = tmp_path_factory.mktemp("filled")
    sizes: dict[str, Any] = {"layers": 2, "tokens": 5, "width": 8, "heads": 2}
    for seed, (network, report) in enumerate([("net", "old"), ("other", "new")]):
        attn.generate_network(folder / f"{network}.safetensors", **sizes, seed=seed)
        attn.rank_collapse(**SMALL | {"seed": seed}).save(folder / f"{report}.json")
    attn.generate_maps(folder / "maps.safetensors", map="uniform", tokens=6, heads=2)
    attn.approximate(pattern="previous", length=8, save_module=folder / "fit.safetensors")
    saved("GPT2LMHeadModel", folder / "model")
    return folder


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in QUESTIONS],
)
def test_python_and_the_command_give_the_same_report(
    name: str, filled: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """But for the words that asked for it; Python is told by a callable how far the work is, and nothing is printed."""
    monkeypatch.chdir(filled)
    ask, words, source, keywords = QUESTIONS[name]
    told = command(*words.split(), *source, *typed(keywords), "--format", "json")
    assert told.code == 0, told.err
    capfd.readouterr()
    seen: list[tuple[int, int, str]] = []
    report = ask(*source, **keywords, progress=lambda *where: seen.append(where))
    assert capfd.readouterr() == ("", "")
    assert all(done <= total for done, total, _ in seen)
    mine, theirs = json.loads(as_json(report)), json.loads(told.out)
    assert mine.pop("command") != theirs.pop("command")
    assert mine == theirs


def test_every_option_that_changes_the_question_is_asked_both_ways() -> None:
    """So that a new kind of question is compared too: commands, and choices without which another study would run."""
    asked = {name for _, _, _, keywords in QUESTIONS.values() for name in keywords}
    kinds = {"sweep", "exact", "by", "path", "sample", "frontier", "relevance", "head", "family_wise"}  # fmt: skip
    assert kinds <= asked
    commands = {path for path in COMMANDS if python_name(tuple(path.split())) in ASKED}
    of_sorts_mechanism = {"reproduce memorise", "reproduce convex-hull"}
    left = commands - {words for _, words, _, _ in QUESTIONS.values()}
    assert left == {"generate network", "generate maps", *of_sorts_mechanism}


def test_gates_and_differences_are_those_of_the_commands(tmp_path: Path) -> None:
    old, new = attn.rank_collapse(**SMALL), attn.rank_collapse(**{**SMALL, "seed": 7})
    paths = [str(old.save(tmp_path / "old.json")), str(new.save(tmp_path / "new.json"))]
    gate = "log10_residual[SAN, layer=-1] < -0.1"
    told = json.loads(command("check", paths[0], "--fail-if", gate, "--format", "json").out)
    assert json.loads(as_json(old.check(gate)))["verdicts"] == told["verdicts"]
    assert command("check", paths[0], "--fail-if", gate).code == int(not old.check(gate).passed)
    moved, of_files = attn.compare(old, new), attn.compare(*paths)
    assert [row.value for row in moved.rows] == [row.value for row in of_files.rows]
    assert moved.headline == of_files.headline


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        ("inspect-model", "`by` is run on two models: name them, or leave it out to compare reports."),
        ("approximate", "unknown command of `by` 'approximate'"),
        ("paths '", "cannot read `by` 'paths '': no closing quotation."),
    ],
)  # fmt: skip
def test_reports_at_hand_are_not_measured(by: str, sentence: str) -> None:
    at_hand = attn.rank_collapse(**SMALL)
    with pytest.raises(attn.AttnError) as refused:
        attn.compare(at_hand, at_hand, by=by)
    assert str(refused.value).startswith(sentence)


@pytest.mark.slow
def test_runs_that_python_asks_for_follow_no_configuration(
    filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [str(filled / "net.safetensors"), str(filled / "other.safetensors")]
    plain = attn.compare(*asked, by="rank-collapse")
    (tmp_path / "attn.toml").write_text('[rank-collapse]\nvariants = "SAN"\n')
    monkeypatch.setenv("ATTN_CONFIG", str(tmp_path / "attn.toml"))
    monkeypatch.setenv("ATTN_RANK_COLLAPSE_METRIC", "stable_rank")
    assert attn.compare(*asked, by="rank-collapse").rows == plain.rows


@pytest.mark.parametrize("name", ASKED)
def test_every_option_is_a_keyword_with_the_same_default(name: str) -> None:
    commands = iterate_commands(build_app(), ())
    known = {python_name(path): one for path, one in commands}[name]
    keywords = inspect.signature(ASKED[name]).parameters
    shared = {"help", *inspect.signature(ProcessOptions).parameters} - set(keywords)
    options = {p.name: p.default for p in known.params if p.name not in shared}
    of_python = {"progress", "pictures", "tokenizer", "save_module"}
    of_python |= {"inputs"} if name in WITH_INPUTS else set()
    of_python |= {"metrics"} if "metric" in options else set()
    of_python |= {"patterns"} if "pattern" in options else set()
    assert set(keywords) - of_python == set(options)
    for option, default in options.items():
        mine = keywords[option].default
        assert (mine or None) == (default or None) or mine is inspect.Parameter.empty, option


@pytest.mark.parametrize(
    ("ask", "source", "keywords"),
    [
        (attn.rank_collapse, (), {"heads": 3, "width": 8}),
        (attn.rank_collapse, ("./nowhere",), {}),
        (attn.rank_collapse, (), {"metric": "stable_rnak"}),
        (attn.inspect_model, ("random:brt",), {}),
        (attn.paths, (), {"sample": 0}),
        (attn.approximate, (), {"pattern": "windw:3"}),
        (attn.compare, ("old.json", "new.json"), {"top": -1}),
        (attn.compare, ("old.json", "new.json"), {"family_wise": 2.0}),
        (attn.compare, ("old.json", "gone.json"), {}),
        (attn.compare, ("old.json", "net.safetensors"), {}),
        (attn.compare, ("old.json", "new.json"), {"by": "rank-collapse"}),
        (attn.compare, ("gone.safetensors", "net.safetensors"), {"by": "paths"}),
        (attn.compare, ("net.safetensors", "net.safetensors"), {"by": "sweep"}),
    ],
)
def test_python_and_the_command_refuse_alike(
    ask: Any,
    source: tuple[str, ...],
    keywords: dict[str, Any],
    filled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(filled)
    told = command(ask.__name__.replace("_", "-"), *source, *typed(keywords))
    with pytest.raises(attn.AttnError) as refused:
        ask(*source, **keywords)
    assert told.code == refused.value.exit_code
    assert told.err == f"attn: {replace_parameters_by_options(str(refused.value))}\n"
    assert "--" not in str(refused.value)
    assert "`" not in told.err


@pytest.mark.parametrize(
    ("ask", "keywords", "in_python", "at_a_terminal"),
    [
        (
            attn.rank_collapse,
            {"heads": 3, "width": 8},
            "`heads=3` does not divide `width=8`: choose heads that do, or give `key_width`.",
            "--heads 3 does not divide --width 8: choose heads that do, or give --key-width.",
        ),
        (
            attn.rank_collapse,
            {"variants": "SAN", "skip": False},
            "give `variants` or single switches such as `skip=False`, not both.",
            "give --variants or single switches such as --no-skip, not both.",
        ),
        (
            attn.rank_collapse,
            {"exact": True},
            "`exact` goes with a model: name one as `source`.",
            "--exact goes with a model: name one as SOURCE.",
        ),
        (
            attn.head_capacity,
            {"source": "gpt2", "inputs": "embeddings"},
            "`inputs='embeddings'` goes with `head='0.HEAD'`.",
            "--inputs embeddings goes with --head 0.HEAD.",
        ),
        (
            attn.rank_collapse,
            {"source": "random:bert", "device_map": "auto"},
            "`device_map` spreads checkpoints: a random model is built on one `device`.",
            "--device-map spreads checkpoints: a random model is built on one --device.",
        ),
    ],
)
def test_a_refusal_speaks_the_language_of_its_reader(
    ask: Any, keywords: dict[str, Any], in_python: str, at_a_terminal: str
) -> None:
    with pytest.raises(attn.AttnError) as refused:
        ask(**keywords)
    assert str(refused.value) == in_python
    assert (
        command(ask.__name__.replace("_", "-"), *typed(keywords)).err == f"attn: {at_a_terminal}\n"
    )


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"layers": "two"}, "`layers` must be a whole number, not 'two'."),
        ({"layers": 2.5}, "`layers` must be a whole number, not 2.5."),
        ({"skip": "no"}, "`skip` must be True or False, not 'no'."),
        ({"init_scale": "wide"}, "`init_scale` must be a number, not 'wide'."),
        ({"variants": 3.5}, "`variants` must be a list of texts, not 3.5."),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_parameter(
    keywords: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(attn.AttnError, match="must be") as refused:
        attn.rank_collapse(**keywords)
    assert str(refused.value) == sentence


def test_what_is_no_report_is_refused_by_its_parameter() -> None:
    with pytest.raises(attn.AttnError, match="must be a text or a report") as refused:
        attn.compare(SMALL, "new.json")
    assert str(refused.value).startswith("`old` ")


def test_a_path_is_told_by_its_name(filled: Path) -> None:
    """The report names the call; a path as the text that any system has for it."""
    network = filled / "net.safetensors"
    assert attn.rank_collapse(network).command == (f"attncli.rank_collapse({str(network)!r})",)


def test_numbers_of_other_libraries_are_numbers() -> None:
    small = {**SMALL, "layers": np.int64(2), "init_scale": np.float32(1.0)}
    assert attn.rank_collapse(**small).rows == attn.rank_collapse(**SMALL).rows


def test_an_unknown_keyword_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="layrs"):
        attn.rank_collapse(layrs=3)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    attn.rank_collapse(**SMALL)
    attn.paths(BERT, random_tokens=6)
    assert capfd.readouterr() == ("", "")


def test_progress_is_a_callable() -> None:
    seen: list[tuple[int, int, str]] = []
    attn.rank_collapse(**SMALL, progress=lambda *told: seen.append(told))
    assert seen
    assert all(done <= total for done, total, _ in seen)


@pytest.mark.slow
def test_importing_and_synthetic_networks_are_light() -> None:
    code = (
        "import sys, attncli as attn\n"
        "assert not {'numpy', 'torch', 'rich', 'typer'} & set(sys.modules), 'import'\n"
        "attn.rank_collapse(layers=1, tokens=3, width=4, heads=1, seeds=1)\n"
        "assert not {'torch', 'transformers', 'typer', 'rich', 'pandas'} & set(sys.modules), sys.modules.keys()\n"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_version_is_the_commands() -> None:
    assert attn_program("--version").stdout == f"attn {attn.__version__}\n"


def test_every_public_name_is_there_and_described() -> None:
    for name in attn.PUBLIC:
        assert inspect.getdoc(getattr(attn, name)), name
    assert set(attn.PUBLIC) <= set(dir(attn))


def test_files_are_written_as_the_commands_write_them(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine.safetensors", tmp_path / "theirs.safetensors"
    assert attn.generate_network(mine, layers=2, width=8, heads=2) == mine
    assert command("generate", "network", "-o", str(theirs), "--layers", "2", "--width", "8", "--heads", "2").code == 0  # fmt: skip
    assert mine.read_bytes() == theirs.read_bytes()
    kinds = ["sink:0.9", "iid:sigma=2"]
    assert attn.generate_maps(mine, map=kinds, tokens=6, heads=2, seed=3) == mine
    words = [word for kind in kinds for word in ("--map", kind)]
    assert command("generate", "maps", "-o", str(theirs), *words, "--tokens", "6", "--heads", "2", "--seed", "3").code == 0  # fmt: skip
    assert mine.read_bytes() == theirs.read_bytes()


def test_editors_know_every_keyword() -> None:
    from stub import stubs

    for path, text in stubs().items():
        assert path.read_text() == text, "run python tests/python/stub.py"


def test_python_in_the_documents_names_what_there_is() -> None:
    """Every block parses, and asks for public names and keywords that exist."""
    import ast
    import re

    root = Path(attn.__file__).parent
    texts = [*(root / "guides").glob("*.md"), root.parent / "README.md"]
    blocks = [block for text in texts for block in re.findall(r"```python\n(.*?)```", text.read_text(), re.DOTALL)]  # fmt: skip
    calls = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]  # fmt: skip
    asked = 0
    for call in calls:
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "attn":
            known = set(inspect.signature(getattr(attn, call.func.attr)).parameters)
            if call.func.attr == "sweep" and call.args:  # takes those of its command, too
                swept = ast.literal_eval(call.args[0]).replace("-", "_")
                known |= set(inspect.signature(getattr(attn, swept)).parameters)
            assert {keyword.arg for keyword in call.keywords} <= known, ast.unparse(call)
            asked += 1
    assert asked > 5


SIZES = {"layers": 1, "tokens": 4, "width": 8, "heads": 2, "seeds": 1}
MAPS = np.full((2, 4, 4), 0.25)
IN_BOTH = [
    (attn.rank_collapse, (), SIZES, ("metric", "metrics"), "stable_rank"),
    (attn.paths, (), SIZES, ("metric", "metrics"), "stable_rank"),
    (attn.approximate, (), {"length": 8}, ("pattern", "patterns"), "window:2"),
    (attn.inspect_maps, (MAPS,), {}, ("metric", "metrics"), "sink"),
]


@pytest.mark.parametrize(("ask", "source", "keywords", "names", "value"), IN_BOTH)
def test_one_and_many_are_the_same_keyword(
    ask: Any, source: Any, keywords: dict[str, Any], names: tuple[str, str], value: str
) -> None:
    one, many = (ask(*source, **keywords, **{name: value}) for name in names)
    assert one.rows == many.rows
    with pytest.raises(attn.AttnError, match="are the same: leave one out"):
        ask(*source, **keywords, **dict.fromkeys(names, value))


@pytest.mark.parametrize("name", [name for name in attn.PUBLIC if name not in ("Report", "AttnError", "read", "Answer")])  # fmt: skip
def test_an_unknown_keyword_says_which_may_be_meant(name: str) -> None:
    """Of every function and class that takes keywords."""
    ask = getattr(attn, name)
    keyword = list(inspect.signature(ask).parameters)[-2]
    if name == "sweep":
        with pytest.raises(attn.AttnError, match="did you mean 'metric'"):
            ask("rank-collapse", "./a", metrc="sink")
        return
    with pytest.raises(TypeError, match=f"unknown keyword of {name}.*: did you mean '{keyword}'"):
        ask(**{f"{keyword}x": 1})


@pytest.mark.parametrize(
    ("ask", "typed", "meant"),
    [(attn.rank_collapse, "num_layers", "layers"), (attn.approximate, "seq_len", "length")],
)
def test_a_keyword_of_another_tool_says_how_it_is_called_here(
    ask: Any, typed: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=f"'{typed}': did you mean '{meant}'"):
        ask(**{typed: 3})
