"""Broken reports where several are read: pages, comparisons, baselines that are accepted, folders of a sweep."""

import json
from pathlib import Path
from random import Random
from typing import Any

from fuzz.forks import Case
from fuzz.material import Material
from fuzz.mutations import VALUES, spoilt_bytes, spoilt_json, spoilt_json_text, spoilt_text
from fuzz.reports import WORDS, hostile

from attncli.render import FORMATS

ODD = (None, 0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, 1e-17, 3, 10**15)
"""Numbers that a report may hold."""
NAMES = ("a.json", "b.json", "step-10.json", "step-2.json", "é.json", "a b.json", "$(x).json", "a\nb.json", "[a].json", "-x.json", "step-9" + "9" * 60 + ".json")  # fmt: skip


def some_report(rng: Random, material: Material) -> Any:
    return rng.choice((material.report, material.report, *material.head_reports))


def spoilt(rng: Random, report: Any) -> str:
    """Mostly still a report; now and then nothing is wrong with it, or it is no JSON."""
    way = rng.random()
    if way < 0.25:
        return json.dumps(report)
    if way < 0.7:
        return json.dumps(with_other_numbers(rng, report))
    if way < 0.85:
        return json.dumps(hostile(rng, report))
    return json.dumps(spoilt_json(rng, report, 1)) if way < 0.95 else spoilt_json_text(rng, report)


def with_other_numbers(rng: Random, report: Any) -> Any:
    """Rows that a report may have, but none that anything was measured as."""
    found = json.loads(json.dumps(report))
    rows = found["rows"]
    for row in rng.sample(rows, min(len(rows), rng.choice((1, 3, 40, len(rows))))):
        row["value"] = rng.choice(ODD)
        row["note"] = "n/a" if row["value"] is None else None
        for key in ("spread", "n", "layer", "head"):
            if row.get(key) is not None and rng.random() < 0.2:
                row[key] = rng.choice(ODD) if key == "spread" else rng.choice((0, 1, 2, 10**6))
    if rng.random() < 0.3:
        found["rows"] = rng.sample(rows, rng.randrange(len(rows)))
    if rng.random() < 0.2:
        found["rows"] = rows + rng.sample(rows, 2)
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text, errors="surrogatepass", encoding="utf-8")


def page(rng: Random, material: Material, folder: Path) -> Case:
    """Of a report, or of maps with their pictures."""
    if rng.random() < 0.7:
        write(folder / "report.json", spoilt(rng, some_report(rng, material)))
        more = rng.choice(([], [], ["--fail-if", "order > 1"], ["--figure-size", rng.choice(("3x2", "0x0", "9999999x1", "nanx1", "x"))]))  # fmt: skip
        return Case(["check", "report.json", "-o", "page.html", *more], output="page.html")
    (folder / "maps.safetensors").write_bytes(rng.choice(material.maps))
    words = ["inspect-maps", "maps.safetensors", "-o", "page.html"]
    if rng.random() < 0.4:
        write(folder / "labels.txt", spoilt_text(rng, "a\nb\nc\nd\ne\nf"))
        words += ["--labels", "labels.txt"]
    return Case([*words, *rng.choice(([], ["--heads", "0.0"], ["--metric", "all"]))], output="page.html")  # fmt: skip


def compare(rng: Random, material: Material, folder: Path) -> Case:
    report = some_report(rng, material)
    for name in ("old.json", "new.json"):
        write(folder / name, spoilt(rng, report if rng.random() < 0.8 else material.report))
    words = ["compare", "old.json", "new.json", "--format", rng.choice(FORMATS.names())]
    if rng.random() < 0.5:
        words += [
            "--family-wise",
            rng.choice((".05", ".5", ".999", "1e-300", rng.choice(("1", "nan", "x", "")))),
        ]
    if rng.random() < 0.3:
        words += ["--top", rng.choice(("0", "1", "3", "99", rng.choice(("-1", "9" * 30))))]
    if rng.random() < 0.3:
        gate = "".join(
            rng.choice((*WORDS, "change", "measured=sink")) for _ in range(rng.randrange(1, 6))
        )
        words += [
            "--fail-if",
            rng.choice((gate, "change_in_spreads > 1", "change > 0", "max(change) < 0")),
        ]
    return Case(words)


def accept(rng: Random, material: Material, folder: Path) -> Case:
    """`attn ci` over saved reports and their baselines."""
    report = some_report(rng, material)
    write(folder / "new.json", spoilt(rng, report))
    if rng.random() < 0.9:
        write(folder / "old.json", spoilt(rng, report))
    metric = rng.choice(report["rows"])["metric"]
    limit = rng.choice(("1", "-0.5", "2s", "0s", "p.05", "5%", "0", "+1e308"))
    gate = rng.choice((f"{metric}:{limit}", f"{metric}:{limit}", f"mean({metric}):{limit}", "x:1"))
    check = {"report": "new.json", "baseline": "old.json", "fail-on": [gate]}
    if rng.random() < 0.3:
        check[rng.choice(list(check))] = rng.choice(VALUES)
    (folder / "attn.toml").write_text(f"[checks.one]\n{toml(check)}", errors="surrogatepass")
    words = [
        "ci",
        *rng.choice(([], [], ["one"], ["two"])),
        *rng.choice(([], ["--accept"], ["--accept"])),
    ]
    return Case([*words, "--format", rng.choice(FORMATS.names())], of_many=True)


def toml(values: dict[str, Any]) -> str:
    """JSON's texts, lists and numbers are TOML's too."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def sweep(rng: Random, material: Material, folder: Path) -> Case:
    """Reports of one training, of several, of none."""
    place = folder / "reports"
    place.mkdir()
    names = rng.sample(NAMES, rng.randrange(1, 5))
    report = some_report(rng, material)
    for name in names:
        each = report if rng.random() < 0.9 else material.report
        content = spoilt(rng, each).encode("utf-8", "surrogatepass")
        (place / name).write_bytes(spoilt_bytes(rng, content) if rng.random() < 0.1 else content)
    if rng.random() < 0.2:
        (place / "inner.json").mkdir()
    words = rng.choice((["--glob", "reports/*.json"], ["--collect", "reports"], ["--glob", "reports/*"]))  # fmt: skip
    if rng.random() < 0.5:
        metric = rng.choice(report["rows"])["metric"]
        ways = (metric, f"max({metric})", f"{metric}[layer=-1]", f"mean({metric})", "max(", "x")
        words = [*words, "--show", rng.choice(ways)]
    words = [
        *words,
        *rng.choice(([], ["--fail-if", f"{rng.choice(report['rows'])['metric']} > 1"], ["-q"])),
    ]
    shown = ["--plot"] if rng.random() < 0.2 else ["--format", rng.choice(FORMATS.names())]
    return Case(["sweep", *words, *shown], of_many=True)
