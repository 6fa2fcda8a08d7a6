"""The input of a softmax along with its output: an entropy from both needs no logarithm of every weight."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncli.capture.attention_calls import read_tensor_version
from attncli.forward_types import Args, Function, Kwargs, Output

SOFTMAX = {torch.softmax, Tensor.softmax, F.softmax}
SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__}


class LastSoftmax(TorchFunctionMode):
    """Remembers the last softmax that ran under it."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: Tensor | None = None
        self.weights: Tensor | None = None
        self.version = 0
        """The version of the weights when they were made; a change in place would raise it."""
        self.shifted: tuple[Tensor, Tensor] | None = None
        """The last difference of a tensor and one number per row, and that tensor."""

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        result = func(*args, **(kwargs or {}))
        if func in SOFTMAX:
            scores = self.undo_subtracted_maxima(args[0])
            self.scores, self.weights, self.version = scores, result, read_tensor_version(result)
        elif func in SUBTRACTIONS and has_one_number_per_row(args):
            self.shifted = result, args[0]
        return result

    def undo_subtracted_maxima(self, value: Tensor) -> Tensor:
        """The scores before a model subtracted their rows' maxima, which changes no weight."""
        shifted = self.shifted
        return shifted[1] if shifted is not None and shifted[0] is value else value

    def find_scores(self, weights: Tensor) -> Tensor | None:
        """The input of the softmax that made these very numbers; None if they were made otherwise.

        With a learned sink one column more takes part, and the weights are the first columns of the softmax's output.
        """
        scores, made = self.scores, self.weights
        if scores is None or made is None or scores.dtype != weights.dtype:
            return None
        keys = weights.shape[-1]
        same = made.data_ptr() == weights.data_ptr() and made.stride() == weights.stride()
        same = same and made.shape[:-1] == weights.shape[:-1] and made.shape[-1] - keys in (0, 1)
        same = same and made.shape == scores.shape and read_tensor_version(weights) == self.version
        return scores[..., :keys] if same else None


def has_one_number_per_row(args: Args) -> bool:
    """Whether the arguments are a tensor and one number for each of its rows."""
    tensors = len(args) == 2 and all(isinstance(each, Tensor) for each in args)
    return tensors and args[1].dim() == args[0].dim() and args[1].shape[-1] == 1
