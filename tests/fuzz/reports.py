"""Broken reports in every format, and gates whose verdicts are decided once more by a few plain lines."""

import json
import math
import operator
from pathlib import Path
from random import Random
from typing import Any

from fuzz.forks import Case
from fuzz.material import Material
from fuzz.mutations import VALUES, paths, spoilt_json, spoilt_json_text, spoilt_text

from attncli.render import FORMATS

OPERATORS = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt},
    **{">=": operator.ge, "==": operator.eq, "!=": operator.ne},
}
WORDS = ("log10_residual", "order", "max(", ")", "[", "]", "SAN", "layer=-1", "0:2", "<", ">=", "==", "1", "-3", "1e999", "nan", ",", " ", ":", "5%", "2s", "p.05", "+", "any(", "\n", "é", "head=0", "layer=:", "layer=-1:", "9" * 5000, " " * 3000, "a" * 3000)  # fmt: skip


def report(rng: Random, material: Material, folder: Path) -> Case:
    """`attn check` in every format and drawing."""
    text = spoilt_json_text(rng, material.report)
    if rng.random() < 0.3:
        text = json.dumps(hostile(rng, material.report))
    (folder / "report.json").write_text(text, errors="surrogatepass", encoding="utf-8")
    words = ["check", "report.json", "--format", rng.choice(FORMATS.names())]
    if rng.random() < 0.2:
        return Case(["check", "-", *words[2:]], stdin=text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.15:
        return Case(["check", "report.json", "--plot"])
    if rng.random() < 0.06:
        return Case(["check", "report.json", "--plot", "a.svg"], output="a.svg")
    if rng.random() < 0.3:
        return Case([*words, "-o", "out.txt"], output="out.txt")
    return Case(words)


def hostile(rng: Random, document: Any) -> Any:
    """Texts alone are replaced, so that it is still a report."""
    document = (
        spoilt_json(rng, document, 1) if rng.random() < 0.2 else json.loads(json.dumps(document))
    )
    for _ in range(4):
        *way, last = rng.choice(paths(document))
        inside = document
        for step in way:
            inside = inside[step]
        if isinstance(inside[last], str):
            inside[last] = rng.choice(
                (
                    "a\n::error::x",
                    "\x1b[2J",
                    "=1+1",
                    "\ud800",
                    "|`<b>",
                    "::add-mask::a",
                    "$x^{$",
                    "\u202e",
                )
            )
    return document


def gate(rng: Random, material: Material, folder: Path) -> Case:
    """Half well formed, and then decided here too; half anything."""
    document = material.report
    (folder / "report.json").write_text(json.dumps(document))
    if rng.random() < 0.5:
        text = "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 9)))
        return Case(
            [
                "check",
                "report.json",
                "--fail-if",
                text,
                "--format",
                rng.choice(("json", "junit", "github")),
            ]
        )
    condition, expected = some_gate(rng, document["rows"])

    def wrong_verdict(folder: Path, out: str, code: int) -> str | None:
        if expected is None:
            return None
        said = json.loads(out)["verdicts"][0]["failed"]
        right = said == expected and code == int(expected)
        return None if right else f"{condition}: {said}, exit {code}, and not {expected}"

    return Case(["check", "report.json", "--fail-if", condition, "--format", "json"], wrong_verdict)


def some_gate(rng: Random, rows: list[dict[str, Any]]) -> tuple[str, bool | None]:
    """A condition in words, and whether it fails the build."""
    metric = rng.choice(("log10_residual", "order", "log10_bound"))
    chosen = [row for row in rows if row["metric"] == metric]
    selectors = []
    if rng.random() < 0.6:
        variant = rng.choice(sorted({row["variant"] for row in chosen}))
        chosen = [row for row in chosen if row["variant"] == variant]
        selectors.append(rng.choice((variant, f"variant={variant}")))
    if rng.random() < 0.6:
        layer = rng.choice(
            sorted({row["layer"] for row in chosen if row["layer"] is not None} or {0})
        )
        last = max((row["layer"] or 0 for row in chosen), default=0)
        chosen = [row for row in chosen if row["layer"] == layer]
        selectors.append(
            rng.choice(
                (f"layer={layer}", str(layer), f"layer={layer - last - 1}", f"{layer}:{layer}")
            )
        )
    aggregate = rng.choice(("", "", "min", "max", "mean", "any", "all"))
    op, number = rng.choice(sorted(OPERATORS)), rng.choice((-3.0, -0.5, 0.0, 1.0, 3.0))
    inside = f"{metric}[{', '.join(selectors)}]" if selectors else metric
    text = f"{aggregate}({inside}) {op} {number}" if aggregate else f"{inside} {op} {number}"
    return text, fails(aggregate, op, number, chosen)


def fails(aggregate: str, op: str, number: float, rows: list[dict[str, Any]]) -> bool | None:
    values = [row["value"] for row in rows if row["value"] is not None]
    lost = any(row["value"] is None and not row["note"].startswith("n/a: ") for row in rows)
    if not rows:
        return None
    if lost or not values:
        return True
    holds = OPERATORS[op]
    if aggregate in ("min", "max"):
        return bool(holds({"min": min, "max": max}[aggregate](values), number))
    if aggregate == "mean":
        return bool(holds(math.fsum(values) / len(values), number))
    found = [holds(value, number) for value in values]
    return all(found) if aggregate == "all" else any(found)


def change(rng: Random, material: Material, folder: Path) -> Case:
    """Two reports, one of them changed, under `--fail-on` or side by side."""
    old, new = material.report, json.loads(json.dumps(material.report))
    moved = [
        row for row in new["rows"] if row["metric"] == "log10_residual" and row["value"] is not None
    ]
    row = rng.choice(moved)
    before = row["value"]
    row["value"] = before + rng.choice((-2.0, -0.1, 0.0, 0.1, 2.0))
    (folder / "old.json").write_text(json.dumps(old))
    (folder / "new.json").write_text(
        json.dumps(new) if rng.random() < 0.6 else spoilt_json_text(rng, new)
    )
    if rng.random() < 0.3:
        return Case(["compare", "old.json", "new.json", "--format", rng.choice(FORMATS.names())])
    if rng.random() < 0.4:
        text = "".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 7)))
        return Case(["check", "new.json", "--baseline", "old.json", "--fail-on", text])
    sign, limit = rng.choice(("", "-", "+")), rng.choice((0.05, 0.5, 1.0))
    moves = row["value"] - before
    expected = {"": abs(moves), "-": -moves, "+": moves}[sign] > limit
    words = ["check", "new.json", "--baseline", "old.json", "--fail-on", f"log10_residual:{sign}{limit}", "--format", "json"]  # fmt: skip
    intact = json.dumps(new) == (folder / "new.json").read_text()

    def wrong_verdict(folder: Path, out: str, code: int) -> str | None:
        said = json.loads(out)["verdicts"][0]["failed"]
        right = said == expected and code == int(expected)
        return None if right or not intact else f"{moves:+}: {said}, exit {code}"

    return Case(words, wrong_verdict)


def listing(rng: Random, material: Material, folder: Path) -> Case:
    """Options of `compare` and `check` with odd words."""
    (folder / "report.json").write_text(json.dumps(material.report))
    word = spoilt_text(rng, rng.choice(("json", "report.json", "log10_residual")))
    option = rng.choice(("--format", "--fail-if", "--output", "--plot", "--baseline"))
    value = rng.choice((word, str(rng.choice(VALUES))))
    return Case(["check", "report.json", option, value])
