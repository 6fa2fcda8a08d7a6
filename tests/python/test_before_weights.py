"""What config and tokenizer can refuse is refused before a weight is read, by every question that runs a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_checkpoints import saved
from tokenizers import Tokenizer, models, pre_tokenizers

import attncli as attn
from attncli.errors import AttnError
from attncli.models.files import lazy_tensors, weight_files

ASKED: dict[str, Callable[..., Any]] = {
    "inspect_model": attn.inspect_model,
    "rank_collapse": attn.rank_collapse,
    "paths": attn.paths,
    "heads": attn.head_capacity,
}
REFUSED = {
    "a text that is too long": ({"text": "a b c d e f g h i j k l m n o p"}, "positions for 12"),
    "ids that are unknown": ({"token_ids": [[1, 2, 999]]}, "token id 999"),
    "too many ids": ({"token_ids": [[1] * 40]}, "positions for 12"),
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of twelve positions; none of its weights may be read."""
    saved("BertForMaskedLM", tmp_path)
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate("?abcdefghijk")}, "?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tmp_path / "tokenizer.json"))
    for module in (weight_files, lazy_tensors):
        monkeypatch.setattr(module, "read_byte_ranges", lambda *_: pytest.fail("weights are read"))
    return str(tmp_path)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("why", REFUSED)
def test_inputs_are_refused_before_weights_are_read(model: str, asked: str, why: str) -> None:
    given, said = REFUSED[why]
    if asked == "heads" and "positions" in said:
        given = {**given, "length": 40}
    with pytest.raises(AttnError, match=said):
        ASKED[asked](model, **given)


@pytest.mark.parametrize("given", [{"layers": "0,99"}, {"heads": "99.0"}])
def test_layers_that_are_not_there_are_refused_before_weights_are_read(
    model: str, given: dict[str, Any]
) -> None:
    with pytest.raises(AttnError, match="there is no layer 99: BertForMaskedLM has layers 0 to 1"):
        attn.inspect_model(model, token_ids=[[1, 2, 3]], **given)


@pytest.mark.parametrize("asked", ["inspect_model", "rank_collapse", "paths"])
def test_random_tokens_are_refused_before_weights_are_read(model: str, asked: str) -> None:
    with pytest.raises(AttnError, match="positions for 12"):
        ASKED[asked](model, random_tokens=40)


@pytest.mark.parametrize("asked", ASKED)
def test_a_folder_without_a_tokenizer(model: str, asked: str) -> None:
    (Path(model) / "tokenizer.json").unlink()
    with pytest.raises(AttnError, match="tokenizer"):
        ASKED[asked](model, text="a b c")


def test_a_folder_that_is_called_almost_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed wrong name is answered with the right one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint-500").mkdir()
    with pytest.raises(
        AttnError, match=r"there is no folder \./checkpiont-500: did you mean \./checkpoint-500\?"
    ):
        attn.inspect_model("./checkpiont-500")
    with pytest.raises(AttnError, match=r"or \./checkpoint-500, which lies on this machine"):
        attn.inspect_model("checkpiont-500", offline=True)
    with pytest.raises(AttnError, match="give the folder of a saved model"):
        attn.inspect_model("./another")
