"""Relevance against the paper's equations, written out over what transformers itself gives for its maps and gradients."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn
from scipy.stats import spearmanr
from small_checkpoints import saved
from trained_models import trained

import attncli
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.models.quiet_libraries import silence_libraries
from attncli.records import Report

torch.set_num_threads(1)

IDS = [4, 9, 17, 3, 11, 5, 6]
MODELS = {
    "bert": ("BertForSequenceClassification", 0, 1),
    "gpt2": ("GPT2LMHeadModel", 5, 13),
    "vit": ("ViTForImageClassification", 0, 1),
    "bart": ("BartForConditionalGeneration", 4, 13),
    "t5": ("T5ForConditionalGeneration", 6, 11),
}
"""A model, the token that is asked about, and the class or token whose logit is explained."""

Matrix = np.ndarray[Any, np.dtype[np.float64]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    made = {}
    for name, (model, _, _) in MODELS.items():
        folder = tmp_path_factory.mktemp(name)
        saved(model, folder)
        made[name] = str(folder)
    return made


def asked(folder: str, name: str, target: str = "", **more: Any) -> Report:
    _, position, index = MODELS[name]
    given = {"random_tokens": 1} if name == "vit" else {"token_ids": [",".join(map(str, IDS))]}
    return attncli.attribute(
        folder, token=str(position), relevance=target or str(index), dtype="float64", **given, **more
    )  # fmt: skip


def told(report: Report, metric: str) -> list[float]:
    rows = [row for row in report.rows if row.metric == metric]
    return [row.value or 0.0 for row in sorted(rows, key=lambda row: row.keys["position"])]  # type: ignore[arg-type,return-value]


def cam(weights: torch.Tensor) -> Matrix:
    """E_h[(∇A ⊙ A)⁺], entry by entry."""
    assert weights.grad is not None
    heads, queries, keys = weights.shape[1:]
    found = np.zeros((queries, keys))
    for h in range(heads):
        for i in range(queries):
            for j in range(keys):
                found[i, j] += max(0.0, float(weights.grad[0, h, i, j] * weights[0, h, i, j]))
    return found / heads


def normed(whole: Matrix) -> Matrix:
    rest = whole - np.eye(len(whole))
    sums = rest.sum(axis=1)
    return np.array([row / s if s else row for row, s in zip(rest, sums, strict=True)]) + np.eye(len(whole))  # fmt: skip


def by_hand(folder: str, name: str, kwargs: dict[str, Any]) -> tuple[float, Matrix, Matrix | None]:
    import transformers

    model_name, position, index = MODELS[name]
    with silence_libraries():
        model = getattr(transformers, model_name).from_pretrained(
            folder, attn_implementation="eager", dtype=torch.float64
        )
    with force_float64():  # some models' code computes its softmax in float32
        output = model.eval()(**kwargs, output_attentions=True, use_cache=False)
    names = [f"{side}_attentions" for side in ("encoder", "decoder", "cross")]
    encoder = getattr(output, names[0], None)
    maps = encoder if encoder is not None else output.attentions
    every = [*maps, *(getattr(output, names[1], None) or ()), *(getattr(output, names[2], None) or ())]  # fmt: skip
    for weights in every:
        weights.retain_grad()
    logits = output.logits[0]
    score = logits[index] if logits.dim() == 1 else logits[position, index]
    score.backward()
    own = np.eye(maps[0].shape[-1])
    for weights in maps:
        own = own + cam(weights) @ own
    if encoder is None:
        return float(score), own, None
    decoder = np.eye(output.decoder_attentions[0].shape[-1])
    across = np.zeros((len(decoder), len(own)))
    for weights, cross in zip(output.decoder_attentions, output.cross_attentions, strict=True):
        decoder, across = decoder + cam(weights) @ decoder, across + cam(weights) @ across
        across = across + normed(decoder).T @ cam(cross) @ normed(own)
    return float(score), decoder, across


def inputs(report: Report, folder: str, name: str) -> dict[str, Any]:
    """What the model was given: the ids, those of the decoder as transformers shifts them, or the image."""
    if name == "vit":
        from attncli.model_and_file_sources import parse_source
        from attncli.models.inputs.input_options import RequestedInput
        from attncli.models.inputs.requested_inputs import make_model_inputs
        from attncli.models.loading.load_model import load_model
        from attncli.models.loading.load_options import LoadOptions

        checkpoint = load_model(parse_source(folder), LoadOptions(dtype="float64"))
        (text,) = make_model_inputs(checkpoint, RequestedInput(random_tokens=1))
        return dict(text.kwargs)
    ids = torch.tensor([IDS])
    if name in ("bart", "t5"):
        start = 2 if name == "bart" else 0
        return {"input_ids": ids, "decoder_input_ids": torch.tensor([[start, *IDS[:-1]]])}
    return {"input_ids": ids}


@pytest.mark.parametrize("name", MODELS)
def test_relevance_is_what_the_papers_equations_say(folders: dict[str, str], name: str) -> None:
    report = asked(folders[name], name)
    position = MODELS[name][1]
    score, own, across = by_hand(folders[name], name, inputs(report, folders[name], name))
    assert [row.value for row in report.rows if row.metric == "relevance_score"] == pytest.approx([score])  # fmt: skip
    expected = own[position] - np.eye(len(own))[position]
    found = told(report, "relevance")
    assert found == pytest.approx(expected[: len(found)].tolist(), rel=1e-9, abs=1e-18)
    assert not np.abs(expected[len(found) :]).any()  # what a causal token does not see
    assert max(found) > 1e-6
    if across is None:
        assert not told(report, "relevance_of_source")
    else:
        assert told(report, "relevance_of_source") == pytest.approx(across[position].tolist(), rel=1e-9)  # fmt: skip


def refused(folder: str, *arguments: str) -> str:
    outcome = attn("attribute", folder, "--token-ids", "4,9,17,3,11,5,6", *arguments)
    assert outcome.code in (2, 3)
    assert outcome.out == ""
    return outcome.err.strip().splitlines()[-1]


@pytest.mark.slow
def test_what_cannot_be_explained_is_refused(folders: dict[str, str]) -> None:
    on = ("--token", "-1", "--relevance")
    assert "missing option" in refused(folders["gpt2"], "--relevance", "top")
    assert "fixes its length" in refused("random:bert?tiny", *on, "state")
    delta = refused("random:qwen3_next?tiny", *on, "state")
    assert "mixes tokens by a gated delta net too" in delta
    assert "apart from transformers' interface" in refused("random:deberta?tiny", *on, "state")


@pytest.mark.parametrize(
    ("model", "target", "said"),
    [
        ("gpt2", "19", "19 apart, 0 to 18"),
        ("bert", "LABEL_7", "there are LABEL_0, LABEL_1"),
        ("gpt2", "dog", "no tokenizer"),
        ("random:gpt2?tiny", "top", "--relevance state"),
    ],
)
def test_what_is_not_there_to_be_explained_is_refused_before_any_text_is_run(
    folders: dict[str, str], model: str, target: str, said: str
) -> None:
    """And before it is said how much memory that takes."""
    folder = folders.get(model, model)
    outcome = attn("attribute", folder, "--token-ids", "4,9,17", "--token", "-1", "--relevance", target)  # fmt: skip
    assert (outcome.code in (2, 3), outcome.out, outcome.err.count("\n")) == (True, "", 1)
    assert said in outcome.err


@pytest.mark.slow
def test_a_class_may_be_named_and_the_top_is_the_largest(folders: dict[str, str]) -> None:
    by_name = asked(folders["bert"], "bert", "LABEL_1")
    assert told(by_name, "relevance") == told(asked(folders["bert"], "bert"), "relevance")
    assert "Relevance for class LABEL_1" in by_name.headline
    scores = [
        asked(folders["bert"], "bert", target).rows for target in ("LABEL_0", "LABEL_1", "top")
    ]
    first, second, top = (next(r.value or 0.0 for r in rows if r.metric == "relevance_score") for rows in scores)  # fmt: skip
    assert top == max(first, second)


def test_a_state_explains_itself_and_nothing_is_left_behind(folders: dict[str, str]) -> None:
    """Its score is 1; the model's parameters are followed by autograd no longer, and its attention is its own again."""
    from transformers import AttentionInterface

    report = asked(folders["gpt2"], "gpt2", "state")
    assert [row.value for row in report.rows if row.metric == "relevance_score"] == [1.0]
    assert min(told(report, "relevance")) >= 0.0
    assert "eager" not in AttentionInterface._global_mapping


def test_relevance_of_several_texts_has_a_spread_and_can_be_gated(
    folders: dict[str, str], tmp_path: Path
) -> None:
    ids = ["--token-ids", "4,9,17,3,11,5,6", "--token-ids", "4,9,1,3,12,5,7"]
    path = tmp_path / "r.json"
    outcome = attn(
        "attribute", folders["gpt2"], *ids, "--token", "-1", "--relevance", "13",
        "--fail-if", "max(relevance) > 1e9", "-o", str(path),
    )  # fmt: skip
    assert outcome.code == 0
    assert "with their gradients: about" in outcome.err  # what it will take of the memory
    rows = json.loads(path.read_text())["rows"]
    relevances = [row for row in rows if row["metric"] == "relevance"]
    assert [row["n"] for row in relevances] == [2] * 7
    assert any(row["spread"] > 0 for row in relevances)
    unasked = attn("attribute", folders["gpt2"], *ids, "--token", "-1", "--fail-if", "max(relevance) > 1")  # fmt: skip
    assert unasked.code == 2


@pytest.mark.slow
def test_what_is_relevant_is_what_the_answer_falls_without() -> None:
    """A trained model's sums: replacing what relevance names costs the answer most; rollout names what does not matter."""
    import transformers

    folder = trained("mathformer", "addformer")
    with silence_libraries():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with_relevance, with_rollout = [], []
    for first, second in ((7, 5), (8, 4), (6, 9)):
        ids = [1, 4 + first, 14, 4 + second, 18]
        report = attncli.attribute(folder, token_ids=[",".join(map(str, ids))], token="-1", relevance="top")  # fmt: skip
        falls = fallen(model, ids)
        with_relevance.append(spearmanr(told(report, "relevance"), falls).statistic)
        with_rollout.append(spearmanr(told(report, "rollout"), falls).statistic)
    assert np.mean(with_relevance) > 0.5
    assert np.mean(with_rollout) < 0.0


def fallen(model: Any, ids: list[int]) -> list[float]:
    """By how much the answer's logit falls when a token is replaced by others of its kind, on average."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1]
        answer, found = int(logits.argmax()), []
        for place in range(len(ids)):
            others = range(4, 14) if place in (1, 3) else (15, 16, 17)
            batch = torch.tensor([[*ids[:place], other, *ids[place + 1 :]] for other in others])
            found.append(float((logits[answer] - model(batch).logits[:, -1, answer]).mean()))
    return found
