"""Additions of two tensors: which are skips, which merge parallel branches, and what of them is kept.

A skip addition is `a + b` where a is on the stream and b, which is not, descends from that very a. Its branch is
attention if an attention call is among b's ancestors since they left the stream, else a mixer or the MLP, which is found
by trying (`mixing`). Parallel blocks add
both branches to one stream: they merge them first (GPT-NeoX, GPT-J, Phi, Falcon), or add the second to the sum though
it read the stream from before (Cohere).
"""

from typing import NamedTuple

import torch

from attncli.ablation.stream_tracking.ablation_policies import Keep, KeepPolicy
from attncli.ablation.stream_tracking.block_run_record import BlockRun, Summand
from attncli.ablation.stream_tracking.operands_of_sums_and_products import (
    Operands,
    find_binary_operands,
    is_vector_over_features,
)
from attncli.ablation.stream_tracking.source_code_locations import find_call_site_in_model_code
from attncli.ablation.stream_tracking.tag_propagation import run_function_with_tags
from attncli.ablation.stream_tracking.tensor_tags import (
    MLP_DEPTH,
    AdditionSite,
    Kind,
    Tag,
    UntouchedResult,
    attach_stream_tag,
    derive_tag_off_residual_stream,
)
from attncli.forward_argument_types import Args, Function, Kwargs, Output


def evaluate_residual_addition(
    run: BlockRun, parts: KeepPolicy, func: Function, args: Args, kwargs: Kwargs
) -> Output:
    """The sum that an addition returns, or the part that is kept of it."""
    terms = find_binary_operands(args, kwargs)
    if terms is None or not all(isinstance(side, torch.Tensor) for side in terms[:2]):
        return add_constant_to_stream(run, terms, func, args, kwargs)
    tags = run.find_tag_of_tensor(terms.first), run.find_tag_of_tensor(terms.second)
    if (shifted := tag_learned_bias(terms, tags)) is not None:
        result = run_function_with_tags(run, func, args, kwargs)
        attach_stream_tag(result, shifted)
        return result
    whole = Addition(func, args, kwargs, terms)
    for stream, branch in ((0, 1), (1, 0)):
        on, off = tags[stream], tags[branch]
        if on and on.point and off and not off.point:
            place = AdditionSite(
                find_call_site_in_model_code(), len(on.point.points_from_block_input())
            )
            kind = classify_skip_addition(on, off, parts.is_token_mixing_branch(run, place))
            if kind:
                return evaluate_skip_addition(run, parts, whole, stream, kind, place, (on, off))
    if (
        tags[0]
        and tags[1]
        and are_parallel_branches(tags[0], tags[1])
        and parts.may_addition_merge_attention_and_mlp(run, find_call_site_in_model_code())
    ):
        return evaluate_branch_merge(run, parts, whole, (tags[0], tags[1]))
    if any(tag and tag.raw for tag in tags):
        run.strange.append(find_call_site_in_model_code())
    return run_function_with_tags(run, func, args, kwargs)


def tag_learned_bias(terms: Operands, tags: tuple[Tag | None, Tag | None]) -> Tag | None:
    """The tag of the stream plus a learned number per feature: still the stream; None of anything else."""
    sides = (terms.first, terms.second)
    for stream, shift in ((0, 1), (1, 0)):
        on = tags[stream]
        if (
            on
            and on.point
            and not tags[shift]
            and is_vector_over_features(sides[shift], sides[stream])
        ):
            return on._replace(scaled=True)
    return None


class Addition(NamedTuple):
    """An addition of which parts can be dropped."""

    func: Function
    args: Args
    kwargs: Kwargs
    terms: Operands

    def evaluate_summands_to_keep(self, keep: Keep, stream: int) -> torch.Tensor:
        """The sum, or what is kept of it, written in place where the code adds in place; `stream`: which term that is."""
        if keep is Keep.BOTH:
            result: torch.Tensor = self.func(*self.args, **self.kwargs)
            return result
        term = self.terms.broadcast_summand_of_addition(
            stream if keep is Keep.STREAM else 1 - stream
        )
        # a copy, like a sum: the code may go on to change it in place
        value = torch.zeros_like(term) if keep is Keep.NOTHING else term.clone()
        if self.func.__name__ in ("add_", "__iadd__"):
            target: torch.Tensor = self.terms.first
            return target.copy_(value)
        return value


def add_constant_to_stream(
    run: BlockRun, terms: Operands | None, func: Function, args: Args, kwargs: Kwargs
) -> Output:
    """Add a number: `0 + x`, with which Python's sum begins, is still x; other numbers change it."""
    result = run_function_with_tags(run, func, args, kwargs)
    if terms is not None:
        tensor, number = terms[:2] if isinstance(terms.first, torch.Tensor) else terms[1::-1]
        tag = run.find_tag_of_tensor(tensor)
        if tag and number == 0 and result is not tensor:
            attach_stream_tag(result, tag)
    return result


def classify_skip_addition(stream: Tag, branch: Tag, mixes: bool) -> Kind | None:
    """Classify what a branch adds to the stream; None where it does not start from it. `mixes`: tokens, even without attention."""
    alone: Kind = "mixer" if mixes else "mlp"
    point = stream.point
    if point in branch.ancestors:
        if any(bare.kind == "merge" for bare in branch.bare):
            return "parallel"
        return "attention" if branch.attention else alone
    if point and point.kind in ("attention", "mixer") and point.parent in branch.ancestors:
        return None if branch.attention or mixes else "beside"
    return None


def evaluate_skip_addition(
    run: BlockRun,
    parts: KeepPolicy,
    whole: Addition,
    stream: int,
    kind: Kind,
    place: AdditionSite,
    tags: tuple[Tag, Tag],
) -> torch.Tensor:
    """Evaluate a recognised skip addition; its result is the stream at a new point."""
    on, off = tags
    assert on.point is not None
    point = run.make_residual_stream_point(
        kind, on.point, place.key, off.bare, off.descends_from_norm_layer(on.point)
    )
    record_added_branch(run, place, whole, 1 - stream, stream)
    run.scaled |= on.scaled
    if kind == "attention" and off.depth == MLP_DEPTH:
        run.inseparable.add(point)
    for call in off.attention:
        run.reached[call].add(point)
    result = whole.evaluate_summands_to_keep(parts.choose_summands_of_skip(point), stream)
    attach_stream_tag(
        result, derive_tag_off_residual_stream([on, off]).move_tag_to_residual_stream_point(point)
    )
    run.record_residual_stream_at_point(point, result)
    return result


def record_added_branch(
    run: BlockRun, place: AdditionSite, whole: Addition, branch: int, stream: int | None = None
) -> None:
    """Record an added branch, if requested."""
    if run.summands is not None:
        added_to = (
            None if stream is None else whole.terms.broadcast_summand_of_addition(stream).clone()
        )
        run.summands.append(
            Summand(place, whole.terms.broadcast_summand_of_addition(branch).clone(), added_to)
        )


def are_parallel_branches(one: Tag, other: Tag) -> bool:
    """Whether two tensors are an attention branch and another one from the same point of the stream."""
    return (
        one.point is None
        and other.point is None
        and bool(one.attention) != bool(other.attention)
        and not one.ancestors.isdisjoint(other.ancestors)
    )


def evaluate_branch_merge(
    run: BlockRun, parts: KeepPolicy, whole: Addition, tags: tuple[Tag, Tag]
) -> torch.Tensor:
    """The sum of two parallel branches, or its attention alone."""
    site = find_call_site_in_model_code()
    run.merges.append(site)
    attention = 0 if tags[0].attention else 1
    record_added_branch(run, AdditionSite(site), whole, 1 - attention)
    result = whole.evaluate_summands_to_keep(
        Keep.BOTH if parts.does_ablation_keep_merged_mlp() else Keep.STREAM, attention
    )
    bare = (*tags[0].bare, *tags[1].bare, UntouchedResult("merge", site))
    attach_stream_tag(result, derive_tag_off_residual_stream([*tags])._replace(bare=bare))
    return result
