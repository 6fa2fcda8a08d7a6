"""Measured cost of watching a training, as ratios within one run. Run: python tests/bench/training.py [TURNS]

A GPT-2 of 6 blocks, width 512, 8 heads in float32, one thread, CPU time; a step is forward, backward and AdamW over
8 × 128 tokens with a vocabulary of 8,000. The ways take turns, and the best time of each counts.
Must hold: a look at a probe of 1 × 128 tokens, with its report written and its numbers made, ≤ 0.2 of a step, which is
1 % of the time at every=20; a step whose batch is looked at ≤ 1.05 of one that is not; what a look adds to the peak
memory at 2,048 tokens ≤ 3 × what it adds at 1,024 (with whole maps it would be 4 ×).
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf

import attncli as attn

EVERY, ITEMS, TOKENS, VOCABULARY, HEADS = 20, 8, 128, 8000, 8
LONG = (1024, 2048)
ON_PROBE, IN_STEP, MEMORY = 0.2, 1.05, 3.0


def model_of(positions: int = TOKENS) -> Any:
    torch.manual_seed(0)
    sizes = {"n_embd": 512, "n_layer": 6, "n_head": HEADS, "n_positions": positions}
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(**sizes, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)
    ).train()


def tokens(items: int, count: int) -> torch.Tensor:
    return torch.randint(VOCABULARY, (items, count), generator=torch.Generator().manual_seed(0))


class Loop:
    def __init__(self) -> None:
        self.model = model_of()
        self.optimiser = torch.optim.AdamW(self.model.parameters(), 1e-4)
        self.ids = tokens(ITEMS, TOKENS)

    def step(self) -> None:
        self.optimiser.zero_grad()
        self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss.backward()
        self.optimiser.step()


def cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def costs(turns: int) -> tuple[float, float]:
    """A look, and a step that is looked at, in plain steps."""
    loop = Loop()
    with tempfile.TemporaryDirectory() as folder:
        probe = attn.Monitor(loop.model, every=EVERY, probe=tokens(1, TOKENS), folder=folder)
        batch = attn.Monitor(loop.model, every=1, probe=tokens(1, TOKENS), measure="batch", folder=Path(folder) / "batch")  # fmt: skip
        batch.every = sys.maxsize
        best = {"step": float("inf"), "look": float("inf"), "watched": float("inf")}

        def watched() -> None:
            batch.every = 1
            loop.step()
            assert batch.step()
            batch.every = sys.maxsize

        for _ in range(turns):
            probe.now += 1
            for name, work in (
                ("step", loop.step),
                ("look", probe.observe_model_now),
                ("watched", watched),
            ):
                best[name] = min(best[name], cpu(work))
    look, step = best["look"] / best["step"], best["watched"] / best["step"]
    print(f"a step {best['step'] * 1e3:.0f} ms; a look {best['look'] * 1e3:.0f} ms = {look:.3f} of it (must be ≤ {ON_PROBE}),")  # fmt: skip
    print(f"  {look / EVERY:.2%} of the time at every={EVERY}; a watched step {step:.3f} × (must be ≤ {IN_STEP})")  # fmt: skip
    return look, step


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(count: int) -> None:
    """In a process of its own: the most that a look adds to the memory, in MiB."""
    torch.set_num_threads(1)
    model, ids = model_of(count), tokens(1, count)
    monitor = attn.Monitor(model, probe=ids[:, :16], metrics="max_logit,entropy,sink")
    monitor.runs.texts[0].kwargs["input_ids"] = ids
    most, running = resident(), True
    before = most

    def watch() -> None:
        nonlocal most
        while running:
            most = max(most, resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    monitor.observe_model_now()
    running = False
    watcher.join()
    print((most - before) / 2**20)


def added(count: int) -> float:
    done = subprocess.run([sys.executable, __file__, "--peak", str(count)], capture_output=True, text=True, check=True)  # fmt: skip
    found = float(done.stdout)
    print(f"{count} tokens: a look adds {found:.0f} MiB at its peak; one layer's maps are {HEADS * count**2 * 4 / 2**20:.0f} MiB")  # fmt: skip
    return found


def main() -> int:
    torch.set_num_threads(1)
    if "--peak" in sys.argv:
        peak(int(sys.argv[-1]))
        return 0
    look, step = costs(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    short, long = (added(count) for count in LONG)
    return int(look > ON_PROBE or step > IN_STEP or long > MEMORY * max(short, 32.0))


if __name__ == "__main__":
    sys.exit(main())
