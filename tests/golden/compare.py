"""Compare two runs of the golden list exactly: each difference in two lines, exit code 1 if there is any.

    python tests/golden/compare.py OLD.json NEW.json [--all] [--only PART…]

Left out: the command line, versions, and what `run.py` has replaced already (scratch folders, digests in names). What
was said is compared after `spelling.SENTENCES`; cases in `DECIDED` must only end with the same exit code, or that of `CODES`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from golden.cases import CASES
from golden.decided import ADDED, CODES, DEFAULTS, LINES, PYTHON, REWORDED
from golden.spelling import sentence_of_design

DECIDED: Mapping[str, str] = {**PYTHON, **{f"refused: {line}": why for why, lines in LINES.items() for line in lines}}  # fmt: skip
"""Cases whose sentences or texts are meant to change between the spellings, and why; exit code and an empty stdout stay."""
LEFT_OUT = ("command", "attn_version", "attn")
"""Fields of reports and of files' metadata that name a command line or a version."""
DIGEST = re.compile(r"\b[0-9a-f]{12}\.json\b")
"""In the name of a swept item's report; of another set of options it is another."""
MOST = 4
"""Differences shown of one case."""
LONGEST = 150

Difference = tuple[str, str]
"""Where, and what is there."""


def main() -> int:
    asked = arguments()
    old, new = (json.loads(path.read_text()) for path in (asked.old, asked.new))
    if "outcomes" in old:
        return told({"defaults": list(of_defaults(old["outcomes"], new["outcomes"]))}, asked.all)
    redesigned = old["spelling"] != new["spelling"]
    decided = {*DECIDED} if redesigned else set()
    respelt = {case.name: case.respelt() for case in CASES} if redesigned else {}
    found = {}
    for name in old["cases"] | new["cases"]:
        if not asked.only or any(part in name for part in asked.only):
            pair = (old["cases"].get(name), new["cases"].get(name))
            code = CODES.get(name) if redesigned else None
            found[name] = list(
                of_case(*pair, respelt=respelt.get(name), decided=name in decided, code=code)
            )
    return told(found, asked.all)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare two runs of the golden list.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--all", action="store_true", help=f"not only {MOST} of a case")
    parser.add_argument("--only", nargs="+", default=[], help="cases with one of these in their names")  # fmt: skip
    return parser.parse_args()


def told(found: Mapping[str, list[Difference]], all_of_them: bool) -> int:
    """Print what differs, and the exit code."""
    for name, differing in found.items():
        shown = differing if all_of_them else differing[:MOST]
        for where, what in shown:
            print(f"{name}: {where}\n  {what}")
        if len(shown) < len(differing):
            print(f"{name}: and {len(differing) - len(shown)} more\n  --all shows them")
    moved = sum(map(bool, found.values()))
    print(f"{moved} of {len(found)} differ.")
    return int(moved > 0)


def of_defaults(old: Any, new: Any) -> Iterator[Difference]:
    """Every default of every run of which something else becomes, and that is not decided."""
    for command, run in ((command, run) for command, runs in old.items() for run in runs):
        for option, was in old[command][run].items():
            now = new[command][run].get(option)
            is_decided = any(all(map(re.fullmatch, own, (option, was, now))) for own in DEFAULTS.values())  # fmt: skip
            if was != now and not is_decided:
                yield f"{command} {run}: {option}", f"{short(was)} → {short(now)}"


def of_case(
    old: Any,
    new: Any,
    *,
    respelt: bool | None = None,
    decided: bool = False,
    code: int | None = None,
) -> Iterator[Difference]:
    """What differs in one case; `respelt` is None between runs of one spelling."""
    if old is None or new is None:
        yield "case", "was not run by the first" if old is None else "was not run by the second"
    elif decided:
        wanted = [[found if code is None else code, said] for found, said in endings(old)]
        yield from differences(wanted, endings(new), "ends")
    else:
        if respelt is not None:
            old = every_text(old, respelt)
        yield from differences(old, new)


def endings(record: Any) -> list[list[Any]]:
    return [[step["code"], bool(step["out"])] for step in record["steps"] if "code" in step]


def every_text(value: Any, respelt: bool) -> Any:
    """What an old run said, in the words of the design."""
    if isinstance(value, str):
        return sentence_of_design(value, respelt)
    if isinstance(value, dict):
        return {name: every_text(each, respelt) for name, each in value.items()}
    return [every_text(each, respelt) for each in value] if isinstance(value, list) else value


def differences(old: Any, new: Any, where: str = "") -> Iterator[Difference]:
    """Every place where two values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from of_mappings(old, new, where)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        yield from of_lists(list(old), list(new), where)
    elif isinstance(old, str) and isinstance(new, str):
        yield from of_texts(old, new, where)
    elif type(old) is not type(new) or not (old == new or (old != old and new != new)):
        yield where, f"{short(old)} → {short(new)}"


def of_mappings(old: dict[str, Any], new: dict[str, Any], where: str) -> Iterator[Difference]:
    skipped = {*LEFT_OUT, "step", "seconds"}
    for name in [*old, *(name for name in new if name not in old)]:
        if name in skipped:
            continue
        place = f"{where}.{name}" if where else str(name)
        if name not in old and place.endswith(tuple(ADDED)):
            continue
        if name not in old or name not in new:
            yield place, "is new" if name not in old else "is gone"
        else:
            yield from differences(old[name], new[name], place)


def of_lists(old: list[Any], new: list[Any], where: str) -> Iterator[Difference]:
    """Item by item; a list that is only in another order is one difference."""
    texts = [json.dumps(one, sort_keys=True) for one in old]
    others = [json.dumps(one, sort_keys=True) for one in new]
    if texts == others:
        return
    if sorted(texts) == sorted(others):
        first = next(n for n, pair in enumerate(zip(texts, others, strict=True)) if len({*pair}) > 1)  # fmt: skip
        yield where, f"the same {len(old)} in another order, from number {first} on"
        return
    if len(old) != len(new):
        yield where, f"{len(old)} → {len(new)} of them"
    for place, (one, other) in enumerate(zip(old, new, strict=False)):
        yield from differences(one, other, f"{where}[{place}]")


def of_texts(old: str, new: str, where: str) -> Iterator[Difference]:
    """The first line that differs and is not `REWORDED`."""
    old, new = (DIGEST.sub("{digest}.json", text) for text in (old, new))
    if old == new:
        return
    lines = list(zip(old.splitlines(), new.splitlines(), strict=False))
    first = next((n for n, (one, other) in enumerate(lines) if one != other and not is_reworded(one, other)), None)  # fmt: skip
    if first is None:
        counts = [len(text.splitlines()) for text in (old, new)]
        if counts[0] != counts[1] or not lines:
            yield where, "{} → {} lines".format(*counts)
        return
    one, other = lines[first]
    begin = max(0, next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0) - 30)  # fmt: skip
    yield f"{where}, line {first + 1}", f"{short(one[begin:])} → {short(other[begin:])}"


def is_reworded(old: str, new: str) -> bool:
    """Whether the line is one that says the same in other words now, by decision."""
    pairs = (pair for pairs in REWORDED.values() for pair in pairs)
    return any(re.search(was, old) and re.search(now, new) for was, now in pairs)


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


if __name__ == "__main__":
    sys.exit(main())
