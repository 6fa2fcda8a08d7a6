"""Refusals whose sentences the design changes, by the reason; `compare.py` holds them to their exit codes alone."""

from collections.abc import Mapping
from typing import Final

NO_NETWORKS = ("maps.safetensors", "fit.safetensors", "report.json", "pattern.npy", "weights.bin", "numbers.npy")  # fmt: skip
MAPS_ATTRIBUTED = (
    "maps.npy --attribute 0",
    "maps.safetensors --attribute 1",
    "pattern.npy --attribute 1",
    "weights.bin --attribute 1",
    "numbers.npy --attribute 1",
)

LINES: Final[Mapping[str, tuple[str, ...]]] = {
    "an option of another command now, which the sentence names": (
        "rank-collapse --as-published",
        "rank-collapse --recurrence 5",
        "rank-collapse --train-steps 5",
        "paths --evaluate frozen",
        "paths --sensitivity",
        "paths --directions 3",
        "approximate --inputs embeddings",
        "approximate --module ./bert --pattern previous",
        "approximate --ranks 2",
        "inspect-model ./bert --relevance top",
        "inspect-model ./bert --labels labels.txt",
        "inspect-model ./bert --batch 1",
        "inspect-model ./bert --metric qk_trace",
    ),
    "two modes were asked at once: the command of the one has no such option": (
        "paths --task sort --count",
        "paths --task sort --sample 3",
        "paths --task sort --tokens 9",
        "paths --task sort --text x --loss",
        "paths --count --sample 3",
        "paths --count --by head",
        "paths --count --random-tokens 4",
        "paths --count --path 1,0",
        "paths 'random:bert?layers=2&width=16&heads=2' --sensitivity --by head",
        "rank-collapse --task circle --layers 3",
        "rank-collapse --task circle --exact",
        "approximate --verify fit.safetensors --pattern previous",
        "approximate --verify fit.safetensors --width 3",
        "approximate --verify fit.safetensors --decide",
        "approximate --module ./bert:0.0 --width 3",
        "approximate --module ./bert:0.0 --heads ./bert",
        "approximate --heads ./bert --frontier 2:4",
        "approximate --heads ./bert --pattern previous",
        "approximate --task rank-heads --pattern window:3",
        "approximate --task rank-heads --decide",
        "inspect-model ./bert --weights-only --tokens 4",
        "inspect-model ./bert --weights-only --text x",
        "inspect-model ./bert --weights-only --sort sink",
        "inspect-model ./bert --weights-only --attribute 0",
        "inspect-model ./bert --weights-only --save-maps m.safetensors",
        "inspect-model ./bert --weights-only --allow-missing --heads 7",
        "inspect-model ./bert --weights-only --heads 1.0",
        "inspect-model ./bert --sweep tokens=2:4 --tokens 4",
        "inspect-model ./bert --attribute 0 --metric sink",
        "inspect-model ./bert --attribute 0 --sweep tokens=2:4",
        "inspect-model ./bert --attribute 0 --with-random-init",
        "inspect-model maps.npy --text x",
        "inspect-model maps.npy --with-random-init",
        "inspect-model maps.npy --weights-only",
    ),
    "no task is named by an option any more": (
        "rank-collapse --task circel",
        "paths --task srot",
        "rank-collapse --task circle 'random:bert?layers=2&width=16&heads=2'",
        "paths --task sort 'random:bert?layers=2&width=16&heads=2'",
    ),
    "layers that a model does not have are refused before its text is read": (
        "inspect-model ./bert --layers 7",
    ),
    "more commands run a model, and the sentence lists them": (
        "compare ./bert ./bert-2 --by 'check'",
        "sweep approximate --model a",
        "sweep --collect out --list-items",
    ),
    "the sentence names the command that the mode has become, and what that takes": (
        *(f"paths {name} --count" for name in NO_NETWORKS),
        "inspect-model net.safetensors --attribute 1",
        "inspect-model fit.safetensors --attribute 1",
        "inspect-model report.json --attribute 1",
        *(f"inspect-model {asked}" for asked in MAPS_ATTRIBUTED),
    ),
}
"""The lines in the words of today. What the redesign decides beyond these is added here with its reason."""

CODES: Final[Mapping[str, int]] = {
    **{f"refused: inspect-model {asked}": 3 for asked in MAPS_ATTRIBUTED},
    "refused: inspect-model ./bert --layers 7": 2,
}
"""Exit codes of refusals that are other ones now. No maps go with `attribute`, so that a file of them is a source of another kind (3), not an option too many (2)."""

PYTHON: Final[Mapping[str, str]] = {
    "python refuses: attn.measure('maps')": "`inspect_maps` takes files too, so that a text names one",
}
"""The same of Python calls, by the case's name."""

DEFAULTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "options of models apply to `approximate` only where a pattern names a model's head": (
        "allow-missing|random-tokens|revision|samples|text|text-file|token-ids",
        "applies",
        r"left out: .* goes with a model: give --pattern MODEL:LAYER\.HEAD:top=4\.",
    ),
    "the length is what a sweep of lengths varies": (
        "length",
        "applies",
        r"left out: --sweep length=\.\.\. sets the length.*",
    ),
    "a folder has no revisions, also where its weights alone are read": (
        "revision",
        "applies",
        r"left out: --revision is for models of the hub: \./bert has none\.",
    ),
    "only the run knows the attention of a network file, and the groups and sizes that a name means; its error names the line": (
        "gates|metric|sort|sweep|top",
        "left out: .*",
        "applies",
    ),
    "the option, or the run, belongs to a command of its own, whose table knows only its own keys": (
        ".*",
        ".*",
        r"exit 2: attn: attn\.toml, line 2: (--\S+ has become a command: .*|unknown option .*)",
    ),
    "the same in another sentence": (".*", "left out: .*", "left out: .*"),
}
"""Outcomes of defaults (`defaults.json`) that are other ones now, by the reason: the option, what became of it, what does now."""
