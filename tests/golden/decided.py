"""Refusals whose sentences the design changes, by the reason; `compare.py` holds them to their exit codes alone."""

from collections.abc import Mapping
from typing import Final

LINES: Final[Mapping[str, tuple[str, ...]]] = {
    "an option of another command now, which the sentence names": (
        "rank-collapse --as-published",
        "rank-collapse --recurrence 5",
        "rank-collapse --train-steps 5",
        "paths --evaluate frozen",
        "paths --sensitivity",
        "paths --directions 3",
        "approximate --inputs embeddings",
        "approximate --ranks 2",
        "inspect-model ./bert --relevance top",
        "inspect-model ./bert --labels labels.txt",
        "inspect-model ./bert --batch 1",
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
        "rank-collapse --task circle --layers 3",
        "rank-collapse --task circle --exact",
        "approximate --verify fit.safetensors --pattern previous",
        "approximate --verify fit.safetensors --width 3",
        "approximate --verify fit.safetensors --decide",
        "approximate --module ./bert:0.0 --width 3",
        "approximate --module ./bert:0.0 --heads ./bert",
        "approximate --heads ./bert --frontier 2:4",
        "approximate --task rank-heads --pattern window:3",
        "approximate --task rank-heads --decide",
        "inspect-model ./bert --weights-only --tokens 4",
        "inspect-model ./bert --weights-only --text x",
        "inspect-model ./bert --weights-only --sort sink",
        "inspect-model ./bert --weights-only --attribute 0",
        "inspect-model ./bert --weights-only --save-maps m.safetensors",
        "inspect-model ./bert --attribute 0 --metric sink",
        "inspect-model ./bert --attribute 0 --sweep tokens=2:4",
        "inspect-model ./bert --attribute 0 --with-random-init",
        "inspect-model maps.npy --text x",
        "inspect-model maps.npy --with-random-init",
        "inspect-model maps.npy --attribute 0",
        "inspect-model maps.npy --weights-only",
    ),
    "no task is named by an option any more": (
        "rank-collapse --task circel",
        "paths --task srot",
        "rank-collapse --task circle 'random:bert?layers=2&width=16&heads=2'",
        "paths --task sort 'random:bert?layers=2&width=16&heads=2'",
    ),
}
"""The lines in the words of today. What the redesign decides beyond these is added here with its reason."""
