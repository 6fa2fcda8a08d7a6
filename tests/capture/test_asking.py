"""What watchers ask of tensors goes past the watchers around them: each would take its time to learn nothing."""

import sys
from collections import Counter

import pytest
from torch.overrides import TorchFunctionMode

import attncli
from attncli.capture.attention_calls import ASKING

HISTORY = {"_version", "_base", "is_inference"}
"""What is asked of every tensor that any function takes or gives."""


class Outermost(TorchFunctionMode):
    """Counts what the package's own code asks of tensors while a model runs, as any watcher around it would have to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.others = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        name = func.__self__.__name__ if name == "__get__" else name
        if name in HISTORY:
            self.asked[f"{name} in {sys._getframe(1).f_code.co_filename}"] += 1
        self.others += func not in ASKING
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("source", ["random:bert?tiny", "random:gpt2?tiny", "random:llama?tiny"])
@pytest.mark.parametrize("question", [attncli.rank_collapse, attncli.inspect_model])
def test_no_watcher_hears_what_another_asks_of_a_tensors_history(question, source):
    with Outermost() as heard:
        question(source, tokens=8)
    assert heard.others > 100
    assert not heard.asked
