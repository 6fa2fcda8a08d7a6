"""Notes on branches that mix tokens in addition to attention, and on blocks with fewer parts than others."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from torch import nn

from attncli.ablation.block_structure import ADDITIONS, OF_MLP, describe_block_operations
from attncli.ablation.model_probes.tracking_verification import Seen
from attncli.ablation.stream_tracking.ablation_policies import Mixing
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.other_mixers.token_mixers import (
    find_token_mixers_besides_attention,
    format_layer_numbers,
    pluralise_mixer_kind,
)
from attncli.forward_argument_types import Inputs

NAMELESS = "token mixer"
KEPT = "token mixers other than softmax attention count as attention: they stay on, and their skip is switched with attention's:"
WITHIN_MLP = "what is switched off as the MLP mixes tokens too"


def describe_mixers_besides_attention(
    model: nn.Module,
    inputs: Inputs,
    stacks: tuple[BlockStack, ...],
    attending: Collection[nn.Module],
    tracked: Seen,
    mixing: Mixing,
    mlps: Mixing,
) -> list[str]:
    """Describe which mixers are kept as attention is, which MLPs mix tokens, and which blocks have no MLP or nothing else.

    `attending`: the modules that attend; `mlps`: branches that mix tokens and count as MLPs.
    """
    notes: list[str] = []
    others: list[str] = []
    for stack in stacks:
        runs = [(run, outputs) for run, outputs in tracked if run.stack == stack.name]
        where = f" of {stack.name}" if len(stacks) > 1 else ""
        mixers, within = (
            sorted({layer for name, layer, _ in each if name == stack.name})
            for each in (mixing, mlps)
        )
        if mixers:
            tokens = max(output.shape[-2] for _, outputs in runs for output in outputs)
            queries = dict.fromkeys(attending, tokens)
            names = list_token_mixer_names(model, inputs, stack, queries, tokens, within)
            notes += [f"{text}{where}" for text in format_layers_per_mixer(mixers, names)]
        if within:
            others.append(f"{format_layer_numbers(within)}{where}: {WITHIN_MLP}.")
        others += describe_incomplete_blocks([run for run, _ in runs], where)
    return [f"{KEPT} {'; '.join(notes)}.", *others] if notes else others


def format_layers_per_mixer(
    layers: Iterable[int], names: Mapping[int, tuple[str, ...]]
) -> Iterator[str]:
    """`gated delta nets in layers 0-2, 4-6`."""
    found: dict[str, list[int]] = {}
    for layer in layers:
        for kind in names.get(layer, (NAMELESS,)):
            found.setdefault(kind, []).append(layer)
    for kind, own in found.items():
        yield f"{pluralise_mixer_kind(kind)} in {format_layer_numbers(own)}"


def list_token_mixer_names(
    model: nn.Module,
    inputs: Inputs,
    stack: BlockStack,
    queries: Mapping[nn.Module, int],
    tokens: int,
    within_mlps: Iterable[int],
) -> dict[int, tuple[str, ...]]:
    """The names of each layer's mixers; none for layers whose MLP mixes too, where they cannot be distinguished."""
    found: dict[int, tuple[str, ...]] = {}
    for mixer in find_token_mixers_besides_attention(model, (stack,), inputs, queries, tokens):
        if mixer.layer not in within_mlps:
            found[mixer.layer] = (*found.get(mixer.layer, ()), mixer.kind)
    return found


def describe_incomplete_blocks(runs: Iterable[BlockRun], where: str) -> Iterator[str]:
    """Describe blocks without an MLP, and blocks of an MLP alone."""
    kinds = {run.call.layer: ADDITIONS.intersection(describe_block_operations(run)) for run in runs}
    without = [layer for layer, found in kinds.items() if not found & OF_MLP]
    alone = [layer for layer, found in kinds.items() if found <= {"mlp"}]
    if len(without) == len(kinds):
        yield f"no layer{where} has an MLP of its own that could be switched off."
    elif without:
        yield f"no MLP is added in {format_layer_numbers(without)}{where}."
    if alone:
        yield f"nothing but an MLP is in {format_layer_numbers(alone)}{where}: without it they change nothing."
