"""The model whose paths are measured: the stack to decompose, and a float64 copy for lack of
digits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attncli.analysis.distributed_text_loop import apply_to_each_text, wrap_with_text_progress
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture.model_structure.blocks import BlockStack, observe_block_states
from attncli.errors import InputError, InsufficientPrecision, LimitError
from attncli.models.inputs.model_input import ModelInput, describe_inputs_besides_token_ids
from attncli.models.loading.loaded_model import LoadedModel
from attncli.progress import Progress
from attncli.records import JsonObject
from attncli.tolerances import COMPLETENESS

R = TypeVar("R")


@dataclass(frozen=True)
class DecomposableModel:
    """A loaded model and the stack of it that is looked at."""

    checkpoint: LoadedModel
    prepared: PreparedModel
    stack: BlockStack
    """The stack whose output is decomposed."""
    wider: "Callable[[], DecomposableModel] | None" = None
    """Loads the same model in float64 on first use; None where the user has chosen the dtype."""

    @property
    def stacks(self) -> tuple[BlockStack, ...]:
        """All of the model's."""
        return self.prepared.stacks

    @property
    def short_input(self) -> ModelInput:
        """The short input on which the model was prepared."""
        return ModelInput("", "", dict(self.prepared.short.kwargs), self.prepared.short.tokens)

    @property
    def model_without_head(self) -> nn.Module:
        return self.checkpoint.model_without_head

    @property
    def completeness_tolerance(self) -> float:
        return COMPLETENESS.tolerance_for_dtype(self.checkpoint.model.dtype)

    @property
    def completeness_advice(self) -> str:
        """At the end of a sentence on a completeness error."""
        wide = self.checkpoint.model.dtype == torch.float64
        return "" if wide else "; large terms cancel here: use `dtype='float64'`"

    def apply_in_sufficient_precision(
        self, text: ModelInput, work: "Callable[[DecomposableModel, ModelInput], R]"
    ) -> tuple[R, bool]:
        """The work on a text, done again in float64 where large terms cancel; and whether it was."""
        try:
            return work(self, text), False
        except InsufficientPrecision as imprecise:
            if self.wider is None:
                raise
            try:
                wide = self.wider()
            except LimitError:
                raise imprecise from None
        return work(wide, text.cast_to_float64()), True

    def apply_to_all_texts(
        self,
        texts: Sequence[ModelInput],
        work: "Callable[[DecomposableModel, ModelInput], R]",
        what: str,
        made_of: Sequence[type],
        progress: Progress,
    ) -> tuple[list[R], JsonObject]:
        """The work on every text, and the report's description of the model."""

        def apply_to_one_text(place: int, text: ModelInput) -> tuple[R, bool]:
            return self.apply_in_sufficient_precision(text, work)

        counted, identity = (
            wrap_with_text_progress(apply_to_one_text, texts, progress),
            self.checkpoint.identity,
        )
        read = apply_to_each_text(self.model_without_head, texts, counted, identity, what, made_of)
        return [found for found, _ in read], self.describe_decomposition(
            texts, [again for _, again in read]
        )

    def measure_completeness_error(self, output: Tensor, plain: Tensor, text: ModelInput) -> float:
        """How far the frozen network is from the model itself, refused where rounding does not explain it."""
        error = float(torch.linalg.norm(output - plain) / torch.linalg.norm(plain))
        if not error <= self.completeness_tolerance:
            raise InsufficientPrecision(
                f"{text.name}: the frozen network misses the model's output by {error:.1g}{self.completeness_advice}."
            )
        return error

    def describe_decomposition(
        self, texts: Sequence[ModelInput], again: Sequence[bool]
    ) -> JsonObject:
        """The report's description of the model; `again`: which texts were run again in float64."""
        others = [
            f"stack {other.name} is not decomposed, {self.stack.name} is"
            for other in self.stacks
            if other is not self.stack
        ]
        others.extend(self.prepared.idle_towers)
        wide = [text.name for text, was in zip(texts, again, strict=True) if was]
        if wide:
            others.append(
                f"large terms cancel, so this was run again in float64: {', '.join(wide)}"
            )
        identity = self.checkpoint.identity
        return {
            "source": {**identity, "stack": self.stack.name, "blocks": len(self.stack.calls)},
            "input": {"texts": [text.describe_model_input() for text in texts]},
            "warnings": (
                *self.checkpoint.warnings,
                *describe_inputs_besides_token_ids(texts),
                *others,
            ),
        }


def run_unmodified_model(
    model: nn.Module, subject: DecomposableModel, text: ModelInput
) -> tuple[Tensor, Any]:
    """Run the unmodified model; return the last block's output, the reference for the terms, and
    the model's output."""
    last: list[Tensor] = []
    stack = subject.stack

    def keep_last_state(name: str, index: int, state: Tensor) -> None:
        if (name, index) == (stack.name, len(stack.calls)):
            last.append(state[0])

    with (
        torch.no_grad(),
        observe_block_states(subject.model_without_head, subject.stacks, keep_last_state),
    ):
        output = model(**text.kwargs)
    if not bool(torch.isfinite(last[0]).all()):
        raise InputError(f"{text.name}: the last state is not finite.")
    return last[0], output
