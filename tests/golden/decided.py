"""What is said otherwise than at the base, each by its reason: refusals, which `compare.py` holds to their exit codes alone,
headlines and other lines, and what becomes of defaults."""

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

REWORDED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "a headline counts heads as `72 heads: 57 mixed, 10 sink`; where none has a clear role it says how uniform they are and how far they look, since `of 4 heads 4 mixed` answered nothing": (
        (
            r"(of )?[\d,]+( of [\d,]+)? (linear )?heads?(\.|,? \d)",
            r"[\d,]+ (linear )?heads?(: (all|none|no|\d+) |: \w+\.|; \w+ [\d.]+| in )",
        ),
    ),
    "a headline of widths and logit scales says what is enough, and at both ends of a range": (
        (r"logits to [\d.]+ at d = \d", r"logits to [\d.]+ .*enough"),
        (
            r"a width was found at \d+ of \d+ lengths",
            r"a width up to \d+ was found at \d+ of \d+ lengths",
        ),
        (r"have a fit \(law [\d.]+\)", r"have a fit \(theory: [\d.]+\)"),
        (r"logit scale ∝ n\^e: d = ", r"logit scale ∝ n\^e at length n: "),
    ),
    "a headline of a small training experiment answers its question: in how many runs, whether chance is beaten, which heads win": (
        (r"[Tt]he two points become one, of \d+ runs? each", r"Runs .*in which the two points"),
        (
            r"paths of one length do better than always|paths carry less than long ones\.|label (frozen|run again) ",
            r"random paths|paths carry less than long ones;|tokens labelled",
        ),
        (
            r"The nearest of \d+ tokens in \d+ dimensions, error",
            r"Finding the nearest of \d+ tokens",
        ),
        (r"[\d.]+ ± [\d.]+ % with \d+ head", r"[\d.]+ ± [\d.]+ % with \d+ head"),
    ),
    "a gate on a single number, and a trend of two points, have no share and no median": (
        (r"holds for (1|none) of 1 values", r"^(?!.* of 1 values)"),
        (r"in 1 of 1 pair, \S+ a step \(median\)", r"(rises|falls), \S+ a step"),
        (r"nothing was measured \(0 of 1 items; ", r"nothing was measured \(1 item; "),
    ),
    "roles read from saved maps are said to come from them": (
        (r"roles are told from these maps alone", r"these roles come from the saved maps"),
    ),
    "a definition or an advice in plainer words": (
        (r"stands in the note", r"is in the note"),
        (r"the path's term beside the whole output", r"relative to the whole output"),
        (r"with attention weights held", r"with attention weights frozen"),
        (r"evenly spread keys", r"evenly spaced keys"),
        (r"or `?(--)?random.tokens`?\.", r"or random tokens instead of a text\."),
        (r"is for models of the hub", r"is for Hub models"),
        (r"stands beside a range of sizes", r"needs a range of sizes"),
        (
            r"exclude each other: (drop one|ask one at a time)",
            r"exclude each other: (leave one out|ask one at a time)",
        ),
        (r"texts and tokens are for heads of models", r"--text goes with a model"),
        (r"reads pixel_values, not text", r"reads images or sounds, not text"),
    ),
}
"""Lines in other words now, by the reason: what the line held, and what it holds now."""

ADDED: Final[Mapping[str, str]] = {
    "environment.attention": "the report says by which function attention ran: the kernel of one pass, or the model's own",
}
"""Fields of reports that the base does not have, by the end of their path."""

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
