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

NAMES = ("a.json", "b.json", "step-10.json", "step-2.json", "é.json", "a b.json", "$(x).json", "a\nb.json", "[a].json", "-x.json", "step-9" + "9" * 60 + ".json")  # fmt: skip


def some_report(rng: Random, material: Material) -> Any:
    return rng.choice((material.report, material.report, *material.head_reports))


def spoilt(rng: Random, report: Any) -> str:
    """Still a report, or any JSON, or any bytes; now and then nothing is wrong with it."""
    way = rng.random()
    if way < 0.15:
        return json.dumps(report)
    if way < 0.5:
        return json.dumps(hostile(rng, report))
    if way < 0.65:
        return json.dumps(spoilt_json(rng, report, 6))
    return spoilt_json_text(rng, report)


def write(path: Path, text: str) -> None:
    path.write_text(text, errors="surrogatepass", encoding="utf-8")


def page(rng: Random, material: Material, folder: Path) -> Case:
    """Of a report, or of maps with their pictures."""
    if rng.random() < 0.7:
        write(folder / "report.json", spoilt(rng, some_report(rng, material)))
        more = rng.choice(([], ["--plot"], ["--fail-if", "order > 1"], ["--figure-size", rng.choice(("3x2", "0x0", "9999999x1", "nanx1", "x"))]))  # fmt: skip
        return Case(["check", "report.json", "-o", "page.html", *more], output="page.html")
    (folder / "maps.safetensors").write_bytes(rng.choice(material.maps))
    write(folder / "labels.txt", spoilt_text(rng, "a\nb\nc\nd\ne\nf"))
    words = ["inspect-model", "maps.safetensors", "--labels", "labels.txt", "-o", "page.html"]
    return Case([*words, *rng.choice(([], ["--heads", "0.0"], ["--metric", "all"]))], output="page.html")  # fmt: skip


def compare(rng: Random, material: Material, folder: Path) -> Case:
    report = some_report(rng, material)
    for name in ("old.json", "new.json"):
        write(folder / name, spoilt(rng, report if rng.random() < 0.8 else material.report))
    words = ["compare", "old.json", "new.json", "--format", rng.choice(FORMATS.names())]
    if rng.random() < 0.5:
        words += ["--family-wise", rng.choice((".05", "1", "0", "-1", "nan", "1e-300", "x", ""))]
    if rng.random() < 0.3:
        words += ["--top", rng.choice(("0", "1", "3", "-1", "9" * 30, "x"))]
    if rng.random() < 0.4:
        gate = "".join(
            rng.choice((*WORDS, "change", "measured=sink")) for _ in range(rng.randrange(1, 6))
        )
        words += ["--fail-if", rng.choice((gate, "change_in_spreads > 1", "max(change) < 0"))]
    return Case(words)


def accept(rng: Random, material: Material, folder: Path) -> Case:
    """`attn ci` over saved reports and their baselines."""
    report = some_report(rng, material)
    write(folder / "new.json", spoilt(rng, report))
    if rng.random() < 0.8:
        write(folder / "old.json", spoilt(rng, report))
    gate = rng.choice(("order:1", "log10_residual:2s", "sink:5%", "any", "x:1", "".join(rng.choice(WORDS) for _ in range(3))))  # fmt: skip
    check = {"report": "new.json", "baseline": "old.json", "fail-on": [gate]}
    if rng.random() < 0.3:
        check[rng.choice(list(check))] = rng.choice(VALUES)
    (folder / "attn.toml").write_text(f"[checks.one]\n{toml(check)}", errors="surrogatepass")
    words = [
        "ci",
        *rng.choice(([], ["one"], ["two"])),
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
    for name in names:
        content = spoilt(rng, some_report(rng, material)).encode("utf-8", "surrogatepass")
        (place / name).write_bytes(spoilt_bytes(rng, content) if rng.random() < 0.1 else content)
    if rng.random() < 0.2:
        (place / "inner.json").mkdir()
    words = rng.choice((["--glob", "reports/*.json"], ["--collect", "reports"], ["--glob", "reports/*"]))  # fmt: skip
    if rng.random() < 0.5:
        words = [*words, "--show", rng.choice(("order", "max(sink)", "log10_residual[layer=-1]", "max(", "x", "sink[layer=9]", "value"))]  # fmt: skip
    words = [*words, *rng.choice(([], ["--plot"], ["--fail-if", "order > 1"], ["-q"]))]
    return Case(["sweep", *words, "--format", rng.choice(FORMATS.names())], of_many=True)
