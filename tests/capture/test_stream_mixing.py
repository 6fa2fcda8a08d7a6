"""The matrices that mix a token's streams are those of the model, and their gain is that of their product."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy_blocks import Block, model_of, some_input

from attncli.ablation import recognise_block_anatomy
from attncli.analysis.heads.forward_passes.hyper_connection_gain import (
    FORWARD,
    compute_stream_gains,
)
from attncli.capture import verify_capture
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.other_mixers.hyper_connections import (
    StreamMixing,
    find_residual_stream_mixings,
)
from attncli.errors import InputError
from attncli.maths.matrices.stream_mixing_matrix_gain import (
    StreamGain,
    compute_stream_mixing_gains,
)
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)


def test_gains_in_closed_form() -> None:
    turn = np.array([[[0.0, 1.0], [1.0, 0.0]]])
    assert compute_stream_mixing_gains([turn, turn]) == [StreamGain(1.0, 1.0)] * 2
    first, second = np.array([[[2.0, -1.0], [0.0, 1.0]]]), np.array([[[1.0, 3.0], [0.0, -1.0]]])
    assert compute_stream_mixing_gains([first]) == [StreamGain(1.0, 2.0)]
    # second @ first = [[2, 2], [0, -1]]: the later one stands on the left
    assert compute_stream_mixing_gains([first, second])[1] == StreamGain(4.0, 2.0)
    assert compute_stream_mixing_gains([np.concatenate([turn, 3 * turn])]) == [
        StreamGain(3.0, 3.0)
    ]  # of all tokens


@pytest.fixture(scope="module", params=["deepseek_v4", "glm5_next_text"])
def hyper(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Their matrices made far from even, and normalised once only, so that the gain is not 1."""
    torch.manual_seed(0)
    model = build_model(request.param, {"tiny": ""}, seed=0)
    for module in model.modules():
        if type(module).__name__.endswith("HyperConnection"):
            module.hc_sinkhorn_iters = 1
            nn.init.normal_(module.fn, std=0.3)
            nn.init.normal_(module.base)
            nn.init.ones_(module.scale)
    return model, make_example_inputs(model)


def by_hand(module: Any, streams: Tensor) -> list[np.ndarray]:
    """The matrix of every token from the module's parameters: a softmax of rows, then columns that sum to one, turned."""
    count, epsilon = module.hc_mult, module.hc_eps
    weight, base = (each.detach().double().numpy() for each in (module.fn, module.base))
    found = []
    for token in streams[0].double().numpy():
        flat = token.reshape(-1)
        flat = flat / np.sqrt((flat**2).mean() + module.input_norm.eps)
        scores = (weight @ flat * float(module.scale[2]) + base)[2 * count :].reshape(count, count)
        comb = np.empty((count, count))
        for row in range(count):
            exponentials = np.exp(scores[row] - scores[row].max())
            comb[row] = exponentials / exponentials.sum() + epsilon
        for column in range(count):
            comb[:, column] /= comb[:, column].sum() + epsilon
        found.append(comb.T)
    return found


def test_the_product_equals_a_loop_over_the_models_own_parameters(hyper: tuple[Any, Any]) -> None:
    model, inputs = hyper
    found = find_residual_stream_mixings(model, verify_capture(model, inputs).left_out, inputs)
    given: list[tuple[str, Any, Tensor]] = []
    handles = [
        module.register_forward_pre_hook(
            lambda module, args, name=name: given.append((name, module, args[0].clone()))
        )
        for name, module in model.named_modules()
        if type(module).__name__.endswith("HyperConnection")
    ]
    with torch.no_grad():
        model(**inputs)
    for handle in handles:
        handle.remove()
    assert [each.path for each in found] == [name for name, *_ in given]
    assert len(found) == 2 * model.config.num_hidden_layers
    products: list[np.ndarray] = []
    for each, (_, module, streams) in zip(found, given, strict=True):
        own = by_hand(module, streams)
        assert each.matrix is not None
        assert np.abs(each.matrix.numpy() - np.array(own)).max() < 1e-5  # the model's is in float32
        products = [a @ b for a, b in zip(own, products, strict=True)] if products else own
    (*_, last) = compute_stream_mixing_gains(
        [each.matrix.numpy() for each in found if each.matrix is not None]
    )
    forward = max(abs(sum(row)) for product in products for row in product)
    backward = max(abs(sum(row)) for product in products for row in product.T)
    assert last == pytest.approx((forward, backward), rel=1e-4)
    assert forward == pytest.approx(1.0, abs=1e-3)  # columns came last
    assert backward > 1.1
    told = compute_stream_gains([found, found], find_block_stacks(model, inputs))
    assert told is not None
    rows = list(told.build_gain_rows(2))
    assert [row.layer for row in rows if row.metric == FORWARD] == list(
        range(model.config.num_hidden_layers)
    )
    assert [row.value for row in rows[-2:]] == list(last)
    assert (
        f"{len(found)} times the {model.config.hc_mult} streams"
        in told.build_stream_gain_finding().text
    )


def test_ablation_is_refused_for_that_reason(hyper: tuple[Any, Any]) -> None:
    with pytest.raises(InputError, match="each token has several streams that the block mixes"):
        recognise_block_anatomy(*hyper)


def test_a_matrix_that_is_not_seen_is_said() -> None:
    told = compute_stream_gains([[StreamMixing("layers.0.mix", None)]], ())
    assert told is not None
    assert list(told.build_gain_rows(1)) == []
    assert told.build_stream_gain_finding().text == (
        "layers.0.mix mixes streams of each token by a matrix that was not seen"
    )


def test_one_stream_has_no_gain() -> None:
    model, inputs = model_of(Block), some_input()
    found = find_residual_stream_mixings(model, verify_capture(model, inputs).left_out, inputs)
    assert found == []
    assert compute_stream_gains([found], find_block_stacks(model, inputs)) is None
