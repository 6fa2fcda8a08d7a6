"""What only Python has: matrices as patterns, numbers as token ids and paths; each the same as its words."""

import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

import attncli as attn
from attncli.errors import AttnError, UsageError
from attncli.models.random.random_models import build_model

LENGTH = 8
MATRIX = np.roll(np.eye(LENGTH), 1, axis=1) + 0.5 * np.eye(LENGTH)

FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda a: a,
    "float16": lambda a: a.astype(np.float16),
    "columns first": np.asfortranarray,
    "every second of a larger one": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "np.matrix": np.matrix,
    "pandas": pd.DataFrame,
    "torch": torch.from_numpy,
    "bfloat16": lambda a: torch.from_numpy(a).bfloat16(),
    "with gradients": lambda a: torch.from_numpy(a).requires_grad_(),
    "sparse torch": lambda a: torch.from_numpy(a).to_sparse(),
    **{
        f"scipy {form}": lambda a, form=form: sp.coo_array(a).asformat(form)
        for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")
    },
}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of np.matrix
@pytest.mark.parametrize("form", FORMS)
def test_a_matrix_is_the_pattern_that_its_file_is(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", MATRIX)
    kept = MATRIX.copy()
    own, file = (
        attn.approximate(pattern=each, width=3, method="certificate")
        for each in (FORMS[form](MATRIX), "m.npy")
    )
    assert [row.value for row in own.rows] == [row.value for row in file.rows]
    assert {row.keys["pattern"] for row in own.rows} == {"matrix"}
    assert own.input["patterns"] == ["matrix"]
    assert (kept == MATRIX).all()


def test_matrices_stand_among_names() -> None:
    """As the first example of the guide has it, under either name of the keyword."""
    wide: dict[str, Any] = {"length": 64, "width": 7, "method": "certificate"}
    report = attn.approximate(patterns=["window:3", np.eye(64)], **wide)
    assert report.rows == attn.approximate(pattern=["window:3", np.eye(64)], **wide).rows
    assert report.input["patterns"] == ["window:3", "matrix"]
    wide = {"length": LENGTH, "width": 4, "method": "certificate"}
    several = attn.approximate(pattern=[MATRIX, "previous", MATRIX.T], **wide)
    assert several.input["patterns"] == ["matrix 1", "previous", "matrix 2"]
    digests = {each["sha256"] for each in several.input["matrices"].values()}
    assert len(digests) == 2
    names = attn.approximate(pattern=np.array(["window:3"]), **wide)
    assert names.input["patterns"] == ["window:3"]


@pytest.mark.slow
def test_a_matrix_is_decided_as_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", MATRIX)
    own, file = (attn.approximate(pattern=p, decide=True) for p in (MATRIX, "m.npy"))
    assert [row.value for row in own.rows] == [row.value for row in file.rows]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.eye(4) * np.nan, "not finite"),
        (-np.eye(4), "negative"),
        (np.zeros((4, 4)), "row 0 has no weight"),
        (np.ones((3, 4)), "3 × 4"),
        (np.ones((2, 4, 4)), r"shape \(2, 4, 4\)"),
        (np.eye(4) * 1j, "complex128"),
        (torch.eye(4) * 1j, "complex64"),
        (torch.eye(4, device="meta"), "no numbers"),
        (np.eye(4).astype(object), "object"),
        (np.ma.masked_less(np.eye(4), 0.5), "masked"),
        (sp.coo_array(([1.0, 1.0, 1.0], ([0, 0, 1], [1, 1, 0]))), "entry"),
        (np.eye(4).tolist(), "give a matrix as an array"),
        ([np.eye(4), None], "names or matrices"),
        (np.ones(4), "`pattern` must be"),
        (np.eye(5), "`length` says 4"),
    ],
)
def test_what_is_no_pattern_is_refused_in_a_sentence(value: Any, said: str) -> None:
    with pytest.raises(AttnError, match=said):
        attn.approximate(pattern=value, length=4)


def test_a_matrix_has_one_length() -> None:
    with pytest.raises(UsageError, match="leave one of them out"):
        attn.approximate(pattern=np.eye(4), sweep="length=4:8")
    with pytest.raises(UsageError, match="are the same"):
        attn.approximate(pattern="window:3", patterns=np.eye(4))


IDS = [5, 6, 7, 8, 9]


def measured(ids: Any) -> attn.Report:
    return attn.inspect_model("random:gpt2?layers=1&tiny", token_ids=ids, metric="sink")


@cache
def as_typed() -> attn.Report:
    return measured("5,6,7,8,9")


def one_by_one() -> Iterator[int]:
    yield from IDS


@pytest.mark.parametrize(
    "given",
    [IDS, tuple(IDS), range(5, 10), np.array(IDS), torch.tensor(IDS), pd.Series(IDS), [IDS],
     torch.tensor([IDS]), one_by_one, ["5,6,7,8,9"], [np.int64(i) for i in IDS]],
    ids=range(11),
)  # fmt: skip
def test_a_list_of_ids_is_one_text(given: Any) -> None:
    ids = given() if callable(given) else given
    own, said = measured(ids), as_typed()
    assert (own.rows, own.input) == (said.rows, said.input)


@pytest.mark.slow
def test_rows_of_ids_are_texts_and_rows_of_steps_are_paths() -> None:
    source = "random:gpt2?layers=2&tiny"
    two = attn.inspect_model(source, token_ids=np.array([[1, 2, 3], [4, 5, 6]]), metric="sink")
    said = attn.inspect_model(source, token_ids=["1,2,3", "4,5,6"], metric="sink")
    assert (two.rows, two.input) == (said.rows, said.input)
    one = attn.paths(source, random_tokens=5, path=[1, 0])
    assert one.rows == attn.paths(source, random_tokens=5, path="1,0").rows


@pytest.mark.parametrize("given", [True, [True], 1.5, [1.5], torch.tensor([1.5]), [[[1]]], [[]], {"a": 1}, b"12", [None]])  # fmt: skip
def test_what_are_no_ids_is_refused_by_name(given: Any) -> None:
    with pytest.raises(UsageError, match="`token_ids` must be"):
        attn.inspect_model("random:gpt2?layers=1&tiny", token_ids=given)


@pytest.mark.parametrize("given", [np.eye(3), [np.eye(3)], [None], {"sink": 1}, b"sink", True])
def test_lists_of_texts_hold_texts(given: Any) -> None:
    with pytest.raises(UsageError, match="`metric` must be a list of texts"):
        attn.inspect_model("random:gpt2?layers=1&tiny", random_tokens=4, metric=given)


BESIDE_A_FILE: dict[str, Any] = {
    "pattern": "window:5", "length": 99, "width": 3, "causal": True, "method": "learned", "total_variation": 0.5,
    "dtype": "float64", "text": "a b", "seed": 3, "inputs": "embeddings", "timing": True, "offline": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("fit") / "fit.safetensors"
    attn.approximate(pattern="window:3", length=8, save_module=file)
    return file


@pytest.mark.parametrize("name", BESIDE_A_FILE)
def test_a_saved_fit_is_measured_as_it_was_asked_for(name: str, fit: Path) -> None:
    """Words that would change nothing are refused, as they might be believed."""
    with pytest.raises(TypeError, match=f"unknown keyword of verify_fit.. '{name}'"):
        attn.verify_fit(fit, **{name: BESIDE_A_FILE[name]})


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a nested tensor as maps": (lambda: attn.inspect_maps(nested()), "is a nested tensor"),
    "a nested tensor as a pattern": (
        lambda: attn.approximate(patterns=nested(), length=3),
        "`pattern` is a nested tensor",
    ),
    "weights of maps": (
        lambda: attn.inspect_maps(np.eye(4), metrics="weights"),
        "measures weights, and these are maps",
    ),
    "a file with a NUL": (lambda: attn.inspect_maps(np.eye(4)).save("a\0b.json"), "`path` holds a NUL"),
    "sparse ids": (
        lambda: attn.inspect_model(TINY, token_ids=torch.tensor([[1, 2]]).to_sparse()),
        "`token_ids` must be",
    ),
    "ids without numbers": (
        lambda: attn.inspect_model(TINY, token_ids=torch.tensor([[1, 2]], device="meta")),
        "`token_ids` must be",
    ),
    "no ids": (lambda: attn.inspect_model(TINY, token_ids=[]), "`token_ids` is empty"),
    "no ids in an array": (
        lambda: attn.inspect_model(TINY, token_ids=np.array([], dtype=int)),
        "`token_ids` is empty",
    ),
    "no texts": (lambda: attn.inspect_model(TINY, text=[]), "`text` is empty"),
    "no beginning": (
        lambda: attn.inspect_model("random:t5?tiny", token_ids=[1, 2]),
        "names no decoder_start_token_id",
    ),
    "a seed below 0": (lambda: attn.paths(TINY, random_tokens=8, sample=1, seed=-1), "`seed` must"),
    "a seed too large": (lambda: attn.inspect_model(TINY, random_tokens=8, seed=2**64), "`seed` must"),
    "a seed of weights": (lambda: attn.inspect_weights(TINY, seed=-1), "`seed` must"),
    "an endless tolerance": (lambda: asked_for(ratio_error=math.inf), "`ratio_error` must"),
    "a tolerance that is none": (lambda: asked_for(off_support=1e-320), "`off_support` must"),
    "more than the memory": (lambda: attn.approximate(pattern="previous", length=10**12), "memory"),
}  # fmt: skip
TINY = "random:llama?tiny"


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is a prototype
        return torch.nested.nested_tensor([torch.eye(3), torch.eye(2)])


def asked_for(**tolerance: float) -> object:
    return attn.approximate(pattern="previous", length=6, **tolerance)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_one_sentence(case: str) -> None:
    asked, said = REFUSED[case]
    with pytest.raises(attn.AttnError) as caught:
        asked()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_are_numbers_whatever_holds_them() -> None:
    plain = attn.inspect_maps(np.eye(4)).rows
    assert attn.inspect_maps(np.eye(4).astype(object)).rows == plain
    assert attn.inspect_maps(memoryview(np.eye(4))).rows == plain


def test_random_texts_are_cut_too() -> None:
    asked = attn.inspect_model(TINY, random_tokens=600, tokens=7, metric="sink")
    assert [text["tokens"] for text in asked.input["texts"]] == [7]


@pytest.mark.slow
def test_a_callers_own_rules_of_arithmetic_hold_for_the_caller_alone() -> None:
    """Weights that vanish are meant to."""
    with np.errstate(all="raise"):
        found = attn.approximate(pattern="random:k=2", length=12)
        with pytest.raises(FloatingPointError):
            np.exp(np.float64(-1e4))
    assert found.rows == attn.approximate(pattern="random:k=2", length=12).rows


def test_a_tokenizer_is_left_as_it_was_set() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=5)
    before = tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding
    model = build_model("llama", {"tiny": 1}, 0)
    found = attn.inspect_model(model, tokenizer=tokenizer, text="a b a b a", metric="sink")
    assert [text["tokens"] for text in found.input["texts"]] == [5]
    assert (tokenizer.backend_tokenizer.truncation, tokenizer.backend_tokenizer.padding) == before


class Lazy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.widths = torch.nn.LazyLinear(16)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.widths(states)
        return found


class WithoutWeights(torch.nn.Module):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return torch.softmax(states @ states.mT, dim=-1) @ states


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: torch.jit.script(torch.nn.Linear(8, 8)), "is TorchScript"),
        (Lazy, r"widths\.weight of this Lazy has no size yet"),
        (lambda: torch.nn.Linear(8, 8, device="meta"), "meta device"),
    ],
)
@pytest.mark.parametrize("question", ["inspect_model", "Monitor"])
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_modules_that_cannot_be_watched_are_told_before_anything_is_changed(
    question: str, made: Callable[[], torch.nn.Module], said: str
) -> None:
    model, given = made(), torch.randn(1, 5, 8)
    asked: dict[str, Callable[[], object]] = {
        "inspect_model": lambda: attn.inspect_model(model, inputs=given),
        "Monitor": lambda: attn.Monitor(model, probe={"input": given}),
    }
    with pytest.raises(attn.AttnError, match=said):
        asked[question]()
    assert model.training


def test_a_module_without_weights_is_measured() -> None:
    states = torch.randn(1, 9, 8, generator=torch.Generator().manual_seed(0))
    found = attn.inspect_model(WithoutWeights(), inputs=states, metric="sink")
    wanted = torch.softmax(states @ states.mT, dim=-1)[0, :, 0].mean()
    (value,) = (row.value for row in found.rows if row.metric == "sink")
    assert value == pytest.approx(float(wanted), abs=1e-6)
