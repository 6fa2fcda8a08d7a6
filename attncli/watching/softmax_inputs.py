"""What a softmax was given, beside the weights that it gave: an entropy from both needs no logarithm of every weight."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

SOFTMAX = {torch.softmax, Tensor.softmax, F.softmax}


class LastSoftmax(TorchFunctionMode):
    """Remembers the last softmax that ran under it."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: Tensor | None = None
        self.weights: Tensor | None = None
        self.version = 0
        """Of the weights when they were made; changing them in place would raise it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SOFTMAX:
            self.scores, self.weights, self.version = args[0], result, result._version
        return result

    def scores_of(self, weights: Tensor) -> Tensor | None:
        """What was given to the softmax that made these very numbers; None if they were made otherwise.

        Beside a learned sink one column more takes part, and the weights are a part of what the softmax gave.
        """
        scores, made = self.scores, self.weights
        if scores is None or made is None or scores.dtype != weights.dtype:
            return None
        same = made.data_ptr() == weights.data_ptr() and made.stride() == weights.stride()
        same = same and scores.shape == weights.shape and weights._version == self.version
        return scores if same else None
