"""Measured costs of `attn paths` on a model, as ratios within one run. Run: python tests/bench/paths.py [gpt2|bert]

A random GPT-2 (124M) or BERT-base (109M) in float32 at 128 tokens; plain = the model's own forward, one thread, CPU time.
Must hold: paths by length ≤ 2 (L + 1) plain forwards, memory ≤ model + (L + 1) states + 200 MB.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import resource
import sys
import time
from collections.abc import Callable

import torch

REPEATS = 3
TOKENS = 128


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds, the best of a few."""
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peak() -> float:
    """MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(arch: str) -> None:
    from attncli.capture.model_structure.blocks import find_block_stacks
    from attncli.models.random.dummy_inputs import make_example_inputs
    from attncli.models.random.random_models import build_model
    from attncli.tensor_subclasses.path_streams.head_contributions import (
        compute_contributions_by_head,
    )
    from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
        decompose_by_path_length,
        run_single_paths,
    )
    from attncli.tensor_subclasses.path_streams.token_contributions import (
        compute_token_contributions,
    )

    model = build_model(arch, {}, 0)
    model.config.use_cache = False
    body = model.base_model
    inputs = make_example_inputs(body, TOKENS)
    (stack,) = find_block_stacks(body, inputs)
    with torch.no_grad():
        plain = cpu(lambda: body(**inputs))
    before, lengths = peak(), len(stack.calls) + 1
    for name, work in {
        "attention": lambda: decompose_by_path_length(body, stack, inputs, True),
        "mlp": lambda: decompose_by_path_length(body, stack, inputs, False),
        "by head": lambda: compute_contributions_by_head(body, stack, inputs),
        "16 paths": lambda: run_single_paths(body, stack, inputs, [(1,) * (lengths - 1)] * 16),
        "attribution": lambda: compute_token_contributions(body, stack, inputs, -1),
    }.items():
        ratio = cpu(work) / plain
        print(
            f"{arch:6} {name:11} {ratio:6.1f} forwards, {ratio / lengths:.2f} (L + 1), peak + {peak() - before:.0f} MB"
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    measure(sys.argv[1] if len(sys.argv) > 1 else "gpt2")
