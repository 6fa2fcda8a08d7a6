"""How the design respells a command line, a Python call and a sentence; only modes that become commands are respelt.

Whoever names something otherwise than the design does changes the rule here, in one place for all cases.
"""

import re
from collections.abc import Iterable, Sequence

MAPS = re.compile(
    r"^(\./)?(maps[\w-]*|numbers|short|several|weights)\.(npy|npz|pt|safetensors|bin)$"
)
"""Files of attention maps and what is taken for them, as `material.py` calls them."""
QUESTIONS = ("rank-collapse", "approximate", "inspect-model", "paths")


def words_of_design(words: Sequence[str]) -> list[str]:
    """The words of a line; of `sweep` and `config show` those of the question within, of `compare` its --by."""
    found = list(words)
    if found[:1] == ["compare"] and "--by" in found:
        place = found.index("--by") + 1
        found[place] = " ".join(words_of_design(found[place].split()))
        return found
    start = 1 if found[:1] == ["sweep"] else 2 if found[:2] == ["config", "show"] else 0
    asked = next((n for n in range(start, len(found)) if found[n] in QUESTIONS), None)
    if asked is None or (start == 0 and asked != 0):
        return found
    return [*found[:asked], *question_of_design(found[asked], found[asked + 1 :])]


def question_of_design(command: str, words: list[str]) -> list[str]:
    """One question by the command that asks it."""
    rules = {"inspect-model": inspecting, "approximate": approximating, "paths": paths_asked, "rank-collapse": collapsing}  # fmt: skip
    return rules[command](words)


def inspecting(words: list[str]) -> list[str]:
    if "--weights-only" in words:
        return ["inspect-weights", *without(words, "--weights-only")]
    if "--attribute" in words:
        return ["attribute", *renamed(words, "--attribute", "--token")]
    if (length := value_of(words, "--sweep")) is not None and length.startswith("tokens="):
        changed = renamed(words, "--sweep", "--lengths")
        return ["dispersion", *(length.removeprefix("tokens=") if w == length else w for w in changed)]  # fmt: skip
    if any(MAPS.match(word) for word in words[:1]):
        return ["inspect-maps", *words]
    return ["inspect-model", *words]


def approximating(words: list[str]) -> list[str]:
    if (fit := value_of(words, "--verify")) is not None:
        return ["verify-fit", fit, *without(words, "--verify", 1)]
    if (model := value_of(words, "--heads")) is not None:
        return ["head-capacity", model, *without(words, "--heads", 1)]
    if (head := value_of(words, "--module")) is not None and ":" in head:
        model, _, place = head.rpartition(":")
        return ["head-capacity", model, "--head", place, *without(words, "--module", 1)]
    return ["approximate", *reproduced("approximate", words)] if value_of(words, "--task") is None else reproduced("approximate", words)  # fmt: skip


def paths_asked(words: list[str]) -> list[str]:
    if value_of(words, "--task") is not None:
        return reproduced("paths", words)
    if "--count" in words:
        return ["count-paths", *without(words, "--count")]
    if "--sensitivity" in words:
        return ["sensitivity", *without(words, "--sensitivity")]
    return ["paths", *words]


def collapsing(words: list[str]) -> list[str]:
    found = reproduced("rank-collapse", words)
    return found if value_of(words, "--task") is not None else ["rank-collapse", *found]


def reproduced(command: str, words: list[str]) -> list[str]:
    """`--task NAME` as `reproduce NAME`; other words stay."""
    task = value_of(words, "--task")
    return words if task is None else ["reproduce", task, *without(words, "--task", 1)]


def value_of(words: Sequence[str], option: str) -> str | None:
    place = words.index(option) + 1 if option in words else len(words)
    return words[place] if place < len(words) else None


def without(words: Sequence[str], option: str, values: int = 0) -> list[str]:
    place = words.index(option)
    return [*words[:place], *words[place + 1 + values :]]


def renamed(words: Iterable[str], old: str, new: str) -> list[str]:
    return [new if word == old else word for word in words]


CALLS = (
    (r"attn\.measure\((?P<maps>.*?), metrics=", r"attn.inspect_maps(\g<maps>, metric="),
    (r"attn\.measure\(", "attn.inspect_maps("),
    (r"attn\.inspect_model\((.*), weights_only=True", r"attn.inspect_weights(\1"),
    (r"attn\.inspect_model\((.*), attribute=", r"attn.attribute(\1, token="),
    (r"attn\.inspect_model\((.*), sweep=(['\"])tokens=", r"attn.dispersion(\1, lengths=\2"),
    (r"attn\.approximate\(verify=", "attn.verify_fit("),
    (r"attn\.approximate\(module=(['\"])([^'\"]*):([\d.]+)\1", r"attn.head_capacity(\1\2\1, head=\1\3\1"),
    (r"attn\.approximate\(heads=", "attn.head_capacity("),
    (r"attn\.paths\(count=True(, )?", "attn.count_paths("),
    (r"attn\.paths\((.*), sensitivity=True", r"attn.sensitivity(\1"),
    (r"attn\.(?:paths|rank_collapse|approximate)\(task=(['\"])([\w-]+)\1(?:, )?", lambda m: f"attn.reproduce.{m[2].replace('-', '_')}("),
)  # fmt: skip
"""A Python call, and what the design makes of it; the first that fits."""


def call_today(expression: str) -> str:
    for pattern, replacement in CALLS:
        changed, count = re.subn(pattern, replacement, expression, count=1)
        if count:
            return changed
    return expression


OPTIONS = {
    ("attribute", "attribute"): "token",
    ("dispersion", "sweep"): "lengths",
    ("head-capacity", "module"): "head",
}
"""Names of options as keys of a configuration file that the design changes, by their new command."""

SENTENCES = (
    (r"attn inspect-model --weights-only", "attn inspect-weights"),
    (r"attn inspect-model --attribute( TOKEN)?", "attn attribute"),
    (r"attn inspect-model --sweep( tokens=\S+)?", "attn dispersion"),
    (r"attn approximate --verify( FILE| …)?", "attn verify-fit"),
    (r"attn approximate --(module|heads)( MODEL| …)?", "attn head-capacity"),
    (r"attn paths --count", "attn count-paths"),
    (r"attn paths --sensitivity", "attn sensitivity"),
    (r"attn (?:rank-collapse|paths|approximate) --task ([\w-]+)", r"attn reproduce \1"),
    (r"attn inspect-model and attn approximate --pattern", "attn inspect-maps and attn approximate --pattern"),
    (r"attn inspect-model takes a file of attention maps \([^)]*\) or a model", "attn inspect-model takes a model"),
    (r"(?<=; )attn approximate --pattern FILE reads it", "attn inspect-maps and attn approximate --pattern FILE read it"),
    (r"; a model is the folder with its config\.json(?=\.)", "; a model is the folder with its config.json, and attn inspect-maps reads attention maps"),
    (r"\breading weights takes", "attn head-capacity --head … takes"),
    (r"--task, --verify, --module, --heads, --decide", "--decide"),
    (r"--module (\S+):(\d+\.\d+):", r"--head \2:"),
    (r"inspect_model\(weights_only=True\)", "inspect_weights()"),
    (r"\battn\.measure\b", "attn.inspect_maps"),
)  # fmt: skip
"""Spellings in what is said."""
OF_RESPELT = ((r"--attribute\b", "--token"), (r"--sweep tokens=", "--lengths "))
"""Options that only some commands spell otherwise: in what respelt cases say."""


def sentence_of_design(text: str, respelt: bool = True) -> str:
    """What was said before, as it would be said now."""
    for pattern, replacement in (*SENTENCES, *OF_RESPELT) if respelt else SENTENCES:
        text = re.sub(pattern, replacement, text)
    return text
