"""What happens around the blocks: left on and said where it is made of one block's output alone, refused elsewhere."""

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from toy_blocks import WIDTH, Attention, Block, Mlp, Model, model_of, some_input

from attncli.ablation import BlockAnatomy, ablate_sub_blocks, recognise_block_anatomy
from attncli.ablation.model_probes import operations_between_blocks
from attncli.capture.model_structure.blocks import observe_block_states
from attncli.errors import InputError
from attncli.networks.ablation_variants import AblationSwitches

START = "block 1 of layers (layers.1, Block) is given "


class Around(Model):
    """Something stands around the blocks."""

    def __init__(self, layers: int = 3) -> None:
        torch.manual_seed(0)
        super().__init__(Block() for _ in range(layers))
        self.other = Attention()
        self.places = nn.Parameter(torch.randn(1, 5, WIDTH))
        self.double().eval().requires_grad_(False)


def understood(model: nn.Module) -> BlockAnatomy:
    return recognise_block_anatomy(model, some_input())


class After(Around):
    def forward(self, x: Tensor) -> Tensor:
        return self.other(super().forward(x))


class Before(Around):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.other(x))


class Aside(Around):
    """What attends between the blocks is given to none of them."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        aside = x
        for layer in self.layers:
            x = layer(x)
            aside = self.other(x)
        return x + aside


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (After, "after the last block"),
        (Before, "before the first block"),
        (Aside, "beside the blocks"),
    ],
)
def test_attention_around_the_blocks_stays_on_and_is_said(kind: type[Around], where: str) -> None:
    notes = understood(kind()).notes
    expected = (
        f"other attends {where} of layers and stays on: the states measured are the blocks' own."
    )
    assert expected in notes


def test_the_blocks_do_the_same_with_a_head_behind_them() -> None:
    """Without its skip and MLP a block is its attention; the head's own runs as ever."""
    model, seen = After(), dict[int, Tensor]()
    anatomy = understood(model)
    watching = observe_block_states(
        model, anatomy.stacks, lambda _, at, x: seen.update({at: x.clone()})
    )
    with watching, ablate_sub_blocks(model, anatomy, AblationSwitches(False, False, False)):
        output = model(**some_input())
    for layer, block in enumerate(model.layers):
        assert isinstance(block, Block)
        alone = block.attention(block.first(seen[layer]))
        assert torch.allclose(seen[layer + 1], alone, rtol=0, atol=1e-13)
    assert torch.equal(output, model.other(seen[len(model.layers)]))


Step = Callable[[Around, Tensor, Tensor], Tensor]


class Stepping(Around):
    """Between two blocks the step makes something of the last state and of the embedding."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        x = start = self.embed(x)
        for number, layer in enumerate(self.layers):
            x = layer(x if number == 0 else self.step(self, x, start))
        return x


def places_added(model: Around, x: Tensor, _: Tensor) -> Tensor:
    return x + model.places


def pooled(model: Around, x: Tensor, _: Tensor) -> Tensor:
    """Fewer tokens, through a linear map: a distilling encoder."""
    return model.other.maps[0](x)[:, ::2]  # type: ignore[no-any-return]


def masked(_: Around, x: Tensor, start: Tensor) -> Tensor:
    """What is true or false of the input is a mask and no state."""
    return x.masked_fill(start.isnan(), 0.0) * 1.5


@pytest.mark.parametrize("step", [places_added, pooled, masked])
def test_what_is_made_of_one_state_alone_stays_on_and_is_said(step: Step) -> None:
    said = "layers: what the model makes of a state between blocks 0 and 1, 1 and 2 stays on"
    assert any(note.startswith(said) for note in understood(Stepping(step)).notes)


def start_added(_: Around, x: Tensor, start: Tensor) -> Tensor:
    return x + start


def start_put_in(_: Around, x: Tensor, start: Tensor) -> Tensor:
    """In place: the tensor is the one that the block returned, its numbers are not."""
    x[:, 0] = start[:, 0]
    return x


def start_put_in_a_view(_: Around, x: Tensor, start: Tensor) -> Tensor:
    x.view(-1, WIDTH)[1].add_(start[0, 1])
    return x


@pytest.mark.parametrize("step", [start_added, start_put_in, start_put_in_a_view])
def test_an_earlier_state_between_blocks_is_refused(step: Step) -> None:
    with pytest.raises(InputError) as caught:
        understood(Stepping(step))
    assert str(caught.value).startswith(f"{START}something else than the block before it returns")


def attended(model: Around, x: Tensor, _: Tensor) -> Tensor:
    return model.other(x)  # type: ignore[no-any-return]


def test_attention_between_two_blocks_is_refused() -> None:
    with pytest.raises(InputError, match=r"^other attends between blocks 0 and 1 of layers"):
        understood(Stepping(attended))


def unseen(_: Around, x: Tensor, start: Tensor) -> Tensor:
    """Past everything that follows tensors."""
    x.numpy()[...] += start.numpy()
    return x


def unseen_before(_: Around, x: Tensor, start: Tensor) -> Tensor:
    changed = 2.0 * x
    changed.numpy()[...] += start.numpy()
    return changed


@pytest.mark.parametrize("step", [unseen, unseen_before])
def test_numbers_prove_what_tags_say(step: Step) -> None:
    model = Stepping(step)
    with pytest.raises(InputError) as caught:
        understood(model)
    assert str(caught.value).startswith(f"{START}more than the output of the block before it makes")
    with mock.patch(
        "attncli.ablation.block_recognition.check_only_states_between_blocks"
    ):  # nothing else finds it
        understood(model)


class Skipping(Around):
    """The last block's input also has what the first one returned, where nothing sees it."""

    def forward(self, x: Tensor) -> Tensor:
        one = self.layers[0](self.embed(x))
        two = self.layers[1](one) * 2.0
        two.numpy()[...] += one.numpy()
        result: Tensor = self.layers[2](two)
        return result


def test_an_output_from_further_back_is_found() -> None:
    with pytest.raises(InputError, match=r"^block 2 of layers .* is given more than the output"):
        understood(Skipping())


def test_any_two_outputs_change_apart_in_some_run() -> None:
    model = model_of(Block, layers=6)
    model.forward = lambda x: stepping(model, x)  # type: ignore[method-assign]
    runs: list[dict[int, Tensor]] = []

    def run(*given: object) -> tuple[dict[object, Tensor], None]:
        *_, replace = given
        runs.append({order: replace(order, torch.zeros(2)) for order in orders})  # type: ignore[operator]
        return {}, None

    stacks = recognise_block_anatomy(model, some_input()).stacks
    orders = [call.order for call in stacks[0].calls]
    with (
        mock.patch.object(operations_between_blocks, "run_with_replaced_block_outputs", run),
        mock.patch.object(operations_between_blocks, "check_equal_block_inputs"),
    ):
        operations_between_blocks.check_inputs_of_block_stack(
            model, some_input(), stacks, stacks[0]
        )
    first, others = runs[0], runs[1:-1]
    for one in orders:
        for other in set(orders) - {one}:
            assert any(
                torch.equal(run[one], first[one]) and not torch.equal(run[other], first[other])
                for run in others
            )


def stepping(model: Model, x: Tensor) -> Tensor:
    for layer in model.layers:
        x = 2.0 * layer(x)
    return x


class Pair(Block):
    """Two streams, the second behind a mask, both given back beside something else: LXMERT's cross blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.other_attention, self.other_mlp = Attention(), Mlp()

    def forward(self, x: Tensor, mask: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        one, other = self.first(x), self.first(y)
        x = x + self.attention(one + other)
        y = y + self.other_attention(other - one)
        return x + self.mlp(self.second(x)), mask, y + self.other_mlp(self.second(y))


class Pairs(Around):
    def __init__(self, spoil: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Pair() for _ in range(3)).double().eval()
        self.requires_grad_(False)
        self.spoil = spoil

    def forward(self, x: Tensor) -> Tensor:
        y, mask = self.embed(x.flip(1)), torch.zeros(1, dtype=x.dtype)
        x = self.embed(x)
        for layer in self.layers:
            x, _, y = layer(x, mask, y)
            if self.spoil:
                y.numpy()[...] += 1.0
        return torch.cat([x, y], dim=1)


def test_parts_of_both_streams_are_switched_off() -> None:
    model, inputs = Pairs(), some_input()
    anatomy = understood(model)
    assert [call.second for call in anatomy.stacks[0].calls] == [(2, 2)] * 3
    assert any("blocks have two streams" in note for note in anatomy.notes)
    with ablate_sub_blocks(model, anatomy, AblationSwitches(False, False, False)):
        both = model(**inputs)
    x, y = model.embed(inputs["x"]), model.embed(inputs["x"].flip(1))
    for layer in model.layers:
        one, other = layer.first(x), layer.first(y)
        x, y = layer.attention(one + other), layer.other_attention(other - one)
    assert torch.allclose(both, torch.cat([x, y], dim=1), rtol=0, atol=1e-13)


def test_a_second_stream_that_is_changed_on_the_way_is_refused() -> None:
    with pytest.raises(InputError, match=r"block 1 of layers .* is given more than the output"):
        understood(Pairs(spoil=True))


class Twice(nn.Module):
    """Two attentions of one layer in a list: its elements are no blocks, the layers are."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([Attention(), Attention()])
        self.norm, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        for attention in self.attentions:
            x = x + attention(self.norm(x))
        return x + self.mlp(self.norm(x))


def test_a_list_of_attentions_within_a_layer_is_no_stack() -> None:
    (stack,) = recognise_block_anatomy(model_of(Twice), some_input()).stacks
    assert [call.name for call in stack.calls] == ["layers.0", "layers.1"]


class Flat(Around):
    """XLM: attentions and MLPs in lists of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2)).double().eval()
        self.mlps = nn.ModuleList(Mlp() for _ in range(2)).double().eval()
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for attention, mlp in zip(self.layers, self.mlps, strict=True):
            x = x + attention(x)
            x = x + mlp(x)
        return x


def test_where_no_module_holds_a_block_that_is_said() -> None:
    with pytest.raises(InputError, match="no module holds a block of layers"):
        understood(Flat())
