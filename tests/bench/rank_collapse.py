"""Measured costs of `attn rank-collapse`, as ratios within one run. Run: python tests/bench/rank_collapse.py [--deep]

(a) CPU time of `attn --help` and of the default command, against bare imports of what they cannot do without
(b) CPU time of one layer in split and in plain form, against plain float64 attention; growth with tokens, width, layers
(c) with --deep: peak memory of 200 layers, 4096 tokens, width 256 (takes about ten minutes)
"""

import os

ENVIRONMENT = dict(os.environ)
"""What programs are started with: as the user has it."""

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # for the layers measured here, theirs and ours alike

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.block_forward import run_block
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork, Layer

REPEATS = 7


def child_cpu(*command: str) -> float:
    """CPU seconds of a program, the best of some runs."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=ENVIRONMENT)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(REPEATS))


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of a call, the best of some runs."""

    def once() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return min(once() for _ in range(REPEATS))


def start_up() -> None:
    attn = (sys.executable, "-m", "attncli")
    bare = child_cpu(sys.executable, "-c", "import typer, rich.console")
    with_numpy = child_cpu(sys.executable, "-c", "import numpy, typer, rich.console")
    helped, default = child_cpu(*attn, "--help"), child_cpu(*attn, "rank-collapse")
    print(f"(a) attn --help          {helped:.3f} s = {helped / bare:.2f} × bare imports")
    print(f"    attn rank-collapse   {default:.3f} s = {default / with_numpy:.2f} × bare imports")


def plain_attention(x: np.ndarray, layer: Layer) -> np.ndarray:
    """One attention layer as anyone would write it."""
    total = np.zeros_like(x)
    for w_q, w_k, w_v, w_o in zip(layer.w_q, layer.w_k, layer.w_v, layer.w_o, strict=True):
        logits = (x @ w_q) @ (x @ w_k).T / np.sqrt(w_q.shape[1])
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        total += (logits @ (x @ w_v)) @ w_o
    return total


def layer_cost(tokens: int, width: int, heads: int = 8) -> tuple[float, float, float]:
    """CPU seconds of plain attention, and of ours in plain form and in split form (residual 2^-20)."""
    spec = NetworkSpec(layers=1, tokens=tokens, width=width, heads=heads)
    network = GeneratedNetwork(spec, 0)
    layer, x = network.layer_weights(0), network.embeddings()
    apart, close = SplitState.from_states(x), SplitState.from_states(1.0 + 2.0**-20 * x)
    san = VARIANTS["SAN"]
    return (
        cpu(lambda: plain_attention(x, layer)),
        cpu(lambda: run_block(apart, layer, spec, san)),
        cpu(lambda: run_block(close, layer, spec, san)),
    )


def layers() -> None:
    print("(b)  tokens  width   plain float64   ours, tokens apart   ours, tokens close")
    for tokens, width in [(1024, 512), (256, 512), (4096, 512), (1024, 128), (1024, 256)]:
        plain, apart, close = layer_cost(tokens, width)
        print(
            f"    {tokens:7} {width:6} {plain:13.3f} s {apart:12.3f} s ({apart / plain:.2f} ×)"
            f" {close:10.3f} s ({close / plain:.2f} ×)"
        )
    for depth in (6, 12, 24, 48):
        arguments = ("rank-collapse", "--layers", str(depth), "--seeds", "2")
        seconds = child_cpu(sys.executable, "-m", "attncli", *arguments)
        print(f"    default network, {depth:3} layers: {seconds:.3f} s")


def deep() -> None:
    command = (
        "rank-collapse --layers 200 --tokens 4096 --width 256 --seeds 1 --variants SAN+skip -q"
    )
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "attncli", *command.split()], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"(c) attn {command}: peak {peak:.2f} GiB, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    start_up()
    layers()
    if "--deep" in sys.argv:
        deep()
