"""An atlas of rank collapse: what attention alone does to the residual, architecture by architecture.

python examples/atlas.py FOLDER [MODEL …]

Without models: every model type of transformers that reads text and whose parts can be switched off, tiny, with 6 layers and
random weights. Names of the hub go too; then evict=True keeps the disk free. Run again, it goes on where it was.
FOLDER then holds the reports, atlas.csv, and atlas.png if matplotlib is there; the counts are printed.
"""

import csv
import io
import math
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

import attncli as attn

LAYERS = 6
SIZES = f"tiny&layers={LAYERS}"
LEFT_OUT = ("pixel", "features", "grid")
"""In the names of inputs: images and sounds have lengths of their own."""

NUMBERS = re.compile(r" from \S+ to \S+| (from|up to) layer \d+( on)?")
"""What two curves of one kind do not share."""

FEW = 4
"""Kinds of so few stacks are one kind together."""

Curves = dict[str, list[tuple[float, ...]]]
"""By regime, and what keeps tokens apart where that is said, the curves of log10 r."""


def types() -> list[str]:
    listed = [sys.executable, "-m", "attncli", "list", "architectures", "--format", "csv"]
    rows = csv.DictReader(io.StringIO(subprocess.check_output(listed, text=True)))
    return [
        f"random:{row['name']}?{SIZES}"
        for row in rows
        if row["ablation"] == "understood"
        and "input_ids" in row["inputs"]
        and not any(word in row["inputs"] for word in LEFT_OUT)
    ]


def regime(found: str) -> str:
    """`geometric decay: ×0.6 a layer (causal mask)` → geometric decay (causal mask)."""
    name = NUMBERS.sub("", re.split(r"[:(,;]", found)[0]).strip()
    drag = re.search(r"\([^()]*(?:mask|positions)[^()]*\)", found)
    return f"{name} {drag[0]}" if drag else name


def curves(folder: Path) -> Curves:
    """Of attention alone, in every stack of every report; the most frequent kinds first."""
    found: Curves = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        report = attn.read(path)
        for finding in report.findings:
            stack, _, variant = finding.about.rpartition(" ")
            if variant != "SAN":
                continue
            states = [
                row
                for row in report.rows
                if row.metric == "log10_residual" and row.variant == "SAN"
            ]
            own = [row.value for row in states if row.keys.get("stack", "") == stack]
            curve = tuple(math.nan if value is None else float(value) for value in own)
            found[regime(finding.text)].append(curve)
    return merged(found)


def merged(found: Curves) -> Curves:
    often = {kind: own for kind, own in found.items() if len(own) >= FEW}
    rest = [curve for kind, own in found.items() if kind not in often for curve in own]
    ordered = dict(sorted(often.items(), key=lambda item: -len(item[1])))
    return ordered | ({"others": rest} if rest else {})


def table(found: Curves) -> str:
    lines = [f"{'attention alone':55} {'stacks':>6} {'log10 r at the end (median)':>28}"]
    for kind, own in found.items():
        known = [curve[-1] for curve in own if not math.isnan(curve[-1])]
        last = f"{median(known):.3g}" if known else "not resolved"
        lines.append(f"{kind:55} {len(own):6} {last:>28}")
    return "\n".join(lines)


def draw(found: Curves, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.set_yscale("symlog", linthresh=1.0)
    for number, (kind, own) in enumerate(found.items()):
        for curve in own:
            label = f"{kind}: {len(own)}" if curve is own[0] else None
            axes.plot(curve, color=f"C{number}", alpha=0.5, linewidth=0.8, label=label)
    axes.set(xlim=(0, LAYERS), xlabel="layer", ylabel="log10 r of attention alone (SAN)")
    legend = axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for line in legend.get_lines():
        line.set(alpha=1.0, linewidth=2.0)
    figure.savefig(path, dpi=80)


def main(folder: Path, models: list[str]) -> None:
    swept = attn.sweep(
        "rank-collapse",
        model=models or types(),
        variants="SAN,SAN+skip,transformer",
        random_tokens=16,
        show="log10_residual[SAN, layer=-1]",
        engine="local:1",
        into=str(folder),
    )
    swept.save(folder / "atlas.csv")
    found = curves(folder)
    print(table(found))
    draw(found, folder / "atlas.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
