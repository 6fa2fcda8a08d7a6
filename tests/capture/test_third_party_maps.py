"""Maps as other programs keep them: every shape and name that is read means one thing, and the rest is refused."""

from typing import Any

import numpy as np
import pytest

from attncli.capture.saved_maps.map_files import MapFile
from attncli.capture.saved_maps.third_party_maps import ExternalMaps
from attncli.errors import AttnError
from attncli.io.in_memory_arrays import InMemoryArrays


def drawn(*shape: int, causal: bool = False) -> Any:
    logits = np.random.default_rng(0).normal(size=shape)
    weights = np.exp(logits) * (np.tril(np.ones(shape[-2:])) if causal else 1.0)
    return weights / weights.sum(axis=-1, keepdims=True)


def opened(batch: int | None = None, **arrays: Any) -> MapFile:
    named = {name.replace("__", "."): np.asarray(array) for name, array in arrays.items()}
    return MapFile("FILE", ExternalMaps(InMemoryArrays("FILE", named, {}), batch))


def read(file: MapFile) -> dict[str, Any]:
    """Every map whole, by its place."""
    return {
        f"{saved.site.stack} {saved.site.layer} {saved.site.kind}": np.concatenate(
            [strip.weights[0].numpy() for strip in file.iter_saved_map_rows(saved)], axis=1
        )
        for saved in file.maps
    }


ONE, LAYER, MODEL = drawn(5, 5), drawn(3, 5, 5), drawn(2, 3, 5, 5)
BATCH, WHOLE = drawn(4, 3, 5, 5), drawn(2, 4, 3, 5, 5)


@pytest.mark.parametrize(
    ("arrays", "batch", "wanted"),
    [
        ({"a": ONE}, None, {0: ONE[None]}),
        ({"a": LAYER}, None, {0: LAYER}),
        ({"a": MODEL}, None, {0: MODEL[0], 1: MODEL[1]}),
        ({"a": BATCH}, 2, {0: BATCH[2]}),
        ({"a": WHOLE}, 3, {0: WHOLE[0, 3], 1: WHOLE[1, 3]}),
        ({"a": WHOLE[:, :1]}, None, {0: WHOLE[0, 0], 1: WHOLE[1, 0]}),
        ({"attentions__3": LAYER}, None, {3: LAYER}),
        ({"attentions__1": ONE, "attentions__10": LAYER[0]}, None, {1: ONE[None], 10: LAYER[:1]}),
        ({"layer_0": BATCH[:1], "layer_7": BATCH[1:2]}, None, {0: BATCH[0], 7: BATCH[1]}),
        ({"layer_0": BATCH, "layer_7": BATCH}, 1, {0: BATCH[1], 7: BATCH[1]}),
        ({"arr_0": MODEL}, None, {0: MODEL[0], 1: MODEL[1]}),
        ({"arr_0": LAYER, "arr_1": LAYER[:2]}, None, {0: LAYER, 1: LAYER[:2]}),
        ({"layers__4__attention": LAYER}, None, {4: LAYER}),
        ({"a": LAYER, "tokens": np.arange(5)}, None, {0: LAYER}),
    ],
)  # fmt: skip
def test_every_form_is_read_as_what_it_is(
    arrays: dict[str, Any], batch: int | None, wanted: dict[int, Any]
) -> None:
    found = read(opened(batch, **arrays))
    assert list(found) == [f"layers {layer} self" for layer in wanted]
    for mine, theirs in zip(found.values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_layer_is_not_counted_from_the_end() -> None:
    """`layers.-1` is no layer 1; of a single array no name is needed."""
    with pytest.raises(AttnError):
        opened(None, **{"layers__-1__attention": LAYER, "layers__-2__attention": LAYER})
    found = read(opened(None, **{"layer-1": LAYER, "layer-2": LAYER}))
    assert list(found) == ["layers 1 self", "layers 2 self"]


def test_an_encoder_decoder_has_three_kinds_of_maps() -> None:
    cross = drawn(2, 3, 5)
    file = opened(encoder_attentions__0=drawn(2, 5, 5), decoder_attentions__0=drawn(2, 3, 3), cross_attentions__0=cross)  # fmt: skip
    found = read(file)
    assert list(found) == ["decoder 0 self", "decoder 0 cross", "encoder 0 self"]
    np.testing.assert_array_equal(found["decoder 0 cross"], cross)


@pytest.mark.parametrize(
    ("arrays", "batch", "said"),
    [
        ({"a": np.ones(3)}, None, "holds no array of two axes or more"),
        ({"a": np.ones((1,) * 6)}, None, "a [1, 1, 1, 1, 1, 1]: which are attention maps cannot"),
        ({"a": WHOLE}, None, "a holds 4 texts: name one of 0 … 3 with `batch`"),
        ({"a": WHOLE}, 4, "`batch=4`: a holds the texts 0 … 3"),
        ({"a": WHOLE}, -1, "`batch=-1`"),
        ({"a": LAYER}, 0, "has no axis of texts, it holds a as [head, query, key]"),
        ({"layer_0": BATCH}, None, "layer_0 holds 4 texts"),
        ({"map": LAYER, "hidden": ONE}, None, "hidden [5, 5], map [3, 5, 5]: which are"),
        ({"h_0_q": ONE, "h_0_k": ONE}, None, "which are attention maps cannot be told"),
        ({"a_1": ONE, "a_01": ONE}, None, "a_01 and a_1 are both layer 1"),
        ({"a": np.zeros((2, 0, 5))}, None, "holds nothing"),
        ({"a": 2 * ONE}, None, "row 0 of head 0 in a, read as [query, key], is no attention: it sums to 2"),
        ({"a": -ONE}, None, "is no attention"),
        ({"a": np.full((2, 2), np.nan)}, None, "it sums to nan"),
        ({"a": np.full((2, 2), np.inf)}, None, "it sums to inf"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(
    arrays: dict[str, Any], batch: int | None, said: str
) -> None:
    with pytest.raises(AttnError) as refused:
        read(opened(batch, **arrays))
    assert said in str(refused.value)


def test_the_shapes_that_are_read_are_said() -> None:
    with pytest.raises(AttnError) as refused:
        opened(a=ONE, b=ONE)
    for shape in ("[query, key]", "[head, query, key]", "[layer, head, query, key]", "[layer, batch, head, query, key]", "attentions.0"):  # fmt: skip
        assert shape in str(refused.value)


def test_keys_are_hidden_where_no_head_looks_ahead_and_a_trifle_is_said() -> None:
    """A mask of -10,000 in half precision leaves nothing, one of -9 does."""
    causal = drawn(2, 3, 6, 6, causal=True)
    assert all(saved.causal for saved in opened(a=causal).maps)
    leaky = causal.copy()
    leaky[1, 0, 0] = [1 - 5e-4, 5e-4, 0, 0, 0, 0]
    file = opened(a=leaky)
    assert [saved.causal for saved in file.maps] == [True, False]
    assert file.slightly_ahead == {"layers.1.attention": pytest.approx(5e-4)}
    assert opened(a=drawn(2, 6, 6)).slightly_ahead == {}
