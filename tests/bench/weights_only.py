"""Measured costs of inspect-weights on a random checkpoint of 135M parameters. Run: python tests/bench/weights_only.py

The checkpoint has the sizes of SmolLM-135M (30 layers, 9 heads on 3 key heads, width 576) and is written to a temporary
folder. CPU time, one thread, ratios within one run.

(a) all metrics of all 270 heads, against the same numbers from the D × D products (a sample of heads, scaled up)
(b) peak memory of the whole process against the size of the file
(c) that neither torch nor transformers is imported
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, HEADS, KEY_HEADS, WIDTH, D, MLP, WORDS = 30, 9, 3, 576, 64, 1536, 49152
SAMPLE = 4
"""Heads of which the D × D products are formed: all of them would take minutes."""


def write_checkpoint(folder: Path) -> int:
    """bfloat16, as the original; its size in bytes."""
    from safetensors.numpy import save

    shapes = {"model.embed_tokens.weight": (WORDS, WIDTH), "model.norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        own = f"model.layers.{layer}"
        shapes |= {f"{own}.input_layernorm.weight": (WIDTH,)}
        shapes |= {f"{own}.post_attention_layernorm.weight": (WIDTH,)}
        shapes |= {f"{own}.mlp.{part}_proj.weight": (MLP, WIDTH) for part in ("gate", "up")}
        shapes |= {f"{own}.mlp.down_proj.weight": (WIDTH, MLP)}
        for part, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)):
            shapes[f"{own}.self_attn.{part}_proj.weight"] = (heads * D, WIDTH)
        shapes[f"{own}.self_attn.o_proj.weight"] = (WIDTH, HEADS * D)
    rng = np.random.default_rng(0)
    tensors = {
        name: (0.04 * rng.standard_normal(shape, np.float32)).view(np.uint32) >> 16
        for name, shape in shapes.items()
    }
    path = folder / "model.safetensors"
    as_integers = save({name: bits.astype(np.uint16) for name, bits in tensors.items()})
    path.write_bytes(with_type(as_integers, "U16", "BF16"))
    said = {"model_type": "llama", "num_hidden_layers": LAYERS, "hidden_size": WIDTH}
    said |= {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "head_dim": D}
    (folder / "config.json").write_text(json.dumps(said))
    return path.stat().st_size


def with_type(file: bytes, written: str, meant: str) -> bytes:
    """numpy has no bfloat16: the same bytes, another word in the header."""
    length = int.from_bytes(file[:8], "little")
    header = file[8 : 8 + length].replace(f'"{written}"'.encode(), f'"{meant}"'.encode())
    return len(header).to_bytes(8, "little") + header + file[8 + length :]


def ours(folder: Path) -> Any:
    from attncli.commands.inspect_weights.report import build_weights_report

    return build_weights_report(folder)


def from_whole_products(folder: Path) -> dict[tuple[str, int, int], float]:
    """The same metrics by their definitions, of the first heads of layer 0."""
    from attncli.head_weights.head_configs import HeadConfig
    from attncli.head_weights.qk_ov_products import iter_head_products
    from attncli.models.files.tensor_reader import TensorReader

    found = {}
    for one in iter_head_products(
        TensorReader(folder), HeadConfig.read_config(folder), [0], range(SAMPLE)
    ):
        for name, product in (("qk", one.qk), ("ov", one.ov)):
            assert product is not None
            matrix = product.left @ product.right.T
            s = np.linalg.svd(matrix, compute_uv=False)
            eigenvalues = np.linalg.eigvals(matrix)
            shares = s[s > 1e-12 * s[0]] / s.sum()
            mean = np.trace(matrix) / WIDTH
            nonzero = eigenvalues[np.abs(eigenvalues) > 1e-10 * s[0]]
            values = {
                "stable_rank": (s**2).sum() / s[0] ** 2,
                "effective_rank": np.exp(-(shares * np.log(shares)).sum()),
                "frobenius": np.linalg.norm(matrix),
                "trace": np.trace(matrix),
                "trace_square": np.trace(matrix @ matrix),
                "eigenvalue_mean": mean,
                "eigenvalue_variance": (eigenvalues**2).sum().real / WIDTH - mean**2,
                "positive_share": (nonzero.real > 0).mean(),
            }
            found |= {(f"{name}_{key}", 0, one.head): float(v) for key, v in values.items()}
    return found


def speed(folder: Path) -> None:
    start = time.process_time()
    report = ours(folder)
    fast = time.process_time() - start
    start = time.process_time()
    whole = from_whole_products(folder)
    slow = (time.process_time() - start) * LAYERS * HEADS / SAMPLE
    same = {(row.metric, row.layer, row.head): row.value for row in report.rows}
    worst = max(abs(same[at] - v) / max(abs(v), 1e-3) for at, v in whole.items() if at in same)
    print(f"all metrics of {LAYERS * HEADS} heads: {fast:.2f} s; from D × D products {slow:.0f} s")
    print(f"ratio {slow / fast:.0f} (wanted: 20), largest difference {worst:.1e}", flush=True)


def peak(folder: Path, size: int) -> None:
    """In a process of its own; getrusage would count the memory of the process that started it too."""
    ours(folder)
    status = Path("/proc/self/status").read_text()
    used = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    limit = size + 150 * 2**20
    heavy = sorted({"torch", "transformers"} & sys.modules.keys())
    print(f"peak memory {used / 2**20:.0f} MiB, file {size / 2**20:.0f} MiB, limit {limit / 2**20:.0f} MiB")  # fmt: skip
    print(f"imported of torch and transformers: {', '.join(heavy) or 'neither'}")


def main() -> None:
    if "--peak" in sys.argv:
        peak(Path(sys.argv[-2]), int(sys.argv[-1]))
        return
    with tempfile.TemporaryDirectory() as name:
        size = write_checkpoint(Path(name))
        speed(Path(name))
        subprocess.run([sys.executable, __file__, "--peak", name, str(size)], check=True)


if __name__ == "__main__":
    main()
