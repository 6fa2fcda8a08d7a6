"""The golden list: what is refused, with which exit code, in which sentence."""

from golden.case_types import Case, refused

TINY = "'random:bert?layers=2&width=16&heads=2'"

WORDS = """
rank-colapse
rank-collapse --laers 3
rank-collapse --layers
rank-collapse --layers x
rank-collapse --layers 0
rank-collapse --tokens -4
rank-collapse --seeds 0
rank-collapse --seed -1
rank-collapse --seeds 1 --seeds 2
rank-collapse --init-scale nan
rank-collapse --width 10
rank-collapse --positions rope --key-width 3
rank-collapse --metric stable_rnk
rank-collapse --metric sink
rank-collapse --variants SAM
rank-collapse --norm laer
rank-collapse --mask window
rank-collapse --attention sinkhorn --mask causal
rank-collapse --format jsn
rank-collapse --fail-if 'log10_residul < 3'
rank-collapse --fail-if order
rank-collapse --layers 2 --tokens 4 --width 4 --heads 1 --seeds 1 --fail-if 'order[SAM] < 3'
rank-collapse --sweep layer=2:8
rank-collapse --sweep tokens=8:2
rank-collapse --plot=x.jpg
rank-collapse --figure-size 3
rank-collapse --layers 1 -o no/such/folder/x.json
rank-collapse --layers 2 --tokens 4 --width 4 --heads 1 --seeds 1 --init-scale 1e100
rank-collapse --tokens 9999999 --layers 9999
rank-collapse --config none.toml
rank-collapse --config broken.toml
generate netwrk
generate maps -o x.safetensors
generate maps --map unifrm -o x.safetensors
generate maps --map window:0 -o x.safetensors
generate network --width 9 --heads 2 -o x.safetensors
generate network -o x.json
list metrcs
list --format html
guide metrcs
approximate --pattern windw:3
approximate --pattern random:k=99 --length 8
approximate --pattern window:3 --length 0
approximate --pattern window:2 --length 6 --method cyclc
approximate --pattern window:2 --length 6 --method jl:draws=x
approximate --pattern window:2 --length 6 --width 0
approximate --dtype float16
approximate --effort 9
approximate --frontier 8:4
approximate --sweep width=2:4
approximate --length 1000000
inspect-model
inspect-model ./bert --metric entrpy
inspect-model ./bert --metric qk_trace
inspect-model ./bert --layers 7
inspect-model ./bert --layers 3-1
inspect-model ./bert --heads 9
inspect-model ./bert --heads a
inspect-model ./bert --top 0
inspect-model ./bert --metric sink --sort entropy
inspect-model ./bert --sort sink:up
inspect-model ./bert --strip-memory 0
inspect-model ./bert --dtype float8
inspect-model ./bert --device tpu
inspect-model ./bert --token-ids 2,x
inspect-model ./bert --token-ids 2,999
inspect-model ./bert --text-file none.txt
inspect-model ./bert --text-file empty-file.txt
inspect-model ./bert --random-tokens 0
inspect-model ./bert --processes 0
inspect-model ./bert --revision main
inspect-model ./bert --sweep tokens=8:4
inspect-model ./bert --attribute 99
inspect-model ./bert --attribute zebra --text 'The dog.'
paths --path 1,2
paths --path x --layers 3
paths --layers 3 --path 9,0,0
paths --sample 0
paths --by layer
paths --steps norm
paths --paths-per-sum x --task sort
check
check none.json
check report.json --fail-on 'sink:2s'
check report.json --baseline report.json
check report.json --fail-if 'log10_residual[SAN, layer=99] < 0'
check report.json --baseline report.json --fail-on 'log10_residual'
compare report.json
compare ./bert ./bert-2
compare ./bert ./bert-2 --by 'check'
sweep rank-collapse
sweep rank-collapse --glob 'nothing-*'
sweep approximate --model a
sweep rank-collapse --model net.safetensors --engine slurm
sweep rank-collapse --model net.safetensors --show 'all(sink)'
ci
ci --config broken.toml
config show rank-colapse
config show rank-collapse --laers 3
"""
"""Words and values that make no sense."""

TOGETHER = f"""
rank-collapse --no-skip --variants SAN
rank-collapse --no-mlp --mlp-skip
rank-collapse --sweep tokens=2:8 --tokens 3
rank-collapse --exact
rank-collapse --text x
rank-collapse --sub-blocks
rank-collapse --gates
rank-collapse --gradients
rank-collapse {TINY} --seeds 3
rank-collapse {TINY} --layers 3 --norm layer
rank-collapse {TINY} --sweep tokens=2:8
rank-collapse {TINY} --exact --arithmetic float64
rank-collapse {TINY} --text x --random-tokens 4
rank-collapse net.safetensors --layers 3
rank-collapse net.safetensors --variants SAN --no-skip
rank-collapse --as-published
rank-collapse --recurrence 5
rank-collapse --train-steps 5
rank-collapse --task circle --layers 3
rank-collapse --task circle --exact
rank-collapse --task circle {TINY}
rank-collapse --task circle --width 9
rank-collapse --task circle --sweep width=8,16 --width 8
rank-collapse --task circle --as-published --variants pure
rank-collapse --task circel
paths --task sort --count
paths --task sort --sample 3
paths --task sort --tokens 9
paths --task sort --text x --loss
paths --task sort {TINY}
paths --task srot
paths --evaluate frozen
paths --count --sample 3
paths --count --by head
paths --count --random-tokens 4
paths --count --path 1,0
paths --loss
paths --sensitivity
paths --directions 3
paths --by steps
paths {TINY} --seeds 2
paths {TINY} --by head --sample 3
paths {TINY} --random-tokens 4 --loss
paths {TINY} --stack decoder --random-tokens 4
paths {TINY} --sensitivity --by head
approximate --decide --frontier 2:4
approximate --decide --sweep length=4:8
approximate --verify fit.safetensors --pattern previous
approximate --verify fit.safetensors --width 3
approximate --verify fit.safetensors --decide
approximate --module ./bert:0.0 --width 3
approximate --module ./bert:0.0 --heads ./bert
approximate --module ./bert:9.0 --pattern previous --length 5
approximate --module ./bert --pattern previous
approximate --module ./bert:1.0 --inputs embeddings --pattern previous --length 5
approximate --heads ./bert --pattern previous
approximate --heads ./bert --frontier 2:4
approximate --inputs embeddings
approximate --text x
approximate --sweep length=4:8 --length 6
approximate --width 3 --find-width
approximate --ranks 2
approximate --task rank-heads --pattern window:3
approximate --task rank-heads --decide
approximate --task rank-heads --ranks 3
inspect-model ./bert --weights-only --tokens 4
inspect-model ./bert --weights-only --text x
inspect-model ./bert --weights-only --sort sink
inspect-model ./bert --weights-only --heads 1.0
inspect-model ./bert --weights-only --attribute 0
inspect-model ./bert --weights-only --save-maps m.safetensors
inspect-model ./bert --attribute 0 --metric sink
inspect-model ./bert --attribute 0 --sweep tokens=2:4
inspect-model ./bert --attribute 0 --with-random-init
inspect-model ./bert --relevance top
inspect-model ./bert --attribute 0 --relevance TOKEN
inspect-model ./bert --sweep tokens=2:4 --tokens 4
inspect-model ./bert --labels labels.txt
inspect-model ./bert --batch 1
inspect-model ./bert --metric states --top 2
inspect-model ./bert --random-tokens 4 --samples 0
inspect-model ./bert --text x --samples 3
inspect-model maps.npy --text x
inspect-model maps.npy --with-random-init
inspect-model maps.npy --attribute 0
inspect-model maps.npy --weights-only
inspect-model maps.npy --layers 9
inspect-model maps.npy --heads 5
inspect-model maps.npy --labels essays.txt
inspect-model maps-batch.npy
inspect-model maps-batch.npy --batch 7
inspect-model ./vit --text x
inspect-model ./vit --attribute 0 --text x
check report.json --family-wise 0.05
compare report.json report-other.json --by 'inspect-model'
sweep --collect out --list-items
"""
"""Options that do not go together, or not with this kind of source."""

KINDS = ("net.safetensors", "maps.safetensors", "fit.safetensors", "report.json", "pattern.npy", "weights.bin", "numbers.npy", "gguf.gguf", "broken.safetensors", "./empty-folder", "nowhere.safetensors", "no-such/model")  # fmt: skip
TAKERS = {
    "rank-collapse {}": ("net.safetensors",),
    "paths {}": ("net.safetensors",),
    "paths {} --count": ("net.safetensors",),
    "inspect-model {}": ("maps.safetensors", "pattern.npy"),
    "inspect-model {} --weights-only": (),
    "inspect-model {} --attribute 1": (),
    "approximate --verify {}": ("fit.safetensors",),
    "approximate --module {}:0.0 --pattern previous --length 5": (),
    "approximate --pattern {}": ("pattern.npy", "maps.safetensors", "numbers.npy"),
    "check {}": ("report.json",),
}
"""A command that takes a source, and what of `KINDS` it reads."""

BROKEN = """
inspect-model ./bad-type
inspect-model ./bad-sizes
inspect-model ./bad-layers
inspect-model ./bad-json
inspect-model ./cut
inspect-model ./no-weights
inspect-model ./deeper --token-ids 2,5,6
inspect-model ./bert --weights-only --allow-missing --heads 7
rank-collapse ./cut --token-ids 2,5,6
approximate --module ./cut:0.0 --pattern previous --length 5
approximate --heads ./no-weights
inspect-model random:nothing
inspect-model random:bert?layers=0
inspect-model random:bert?depth=3
inspect-model random:bert?layers=9999999
inspect-model maps.npz --labels broken.json
inspect-model short.npy
inspect-model several.npz
check broken.json
check list.json
check numbers.npy
compare report.json broken.json
approximate --pattern broken.json
approximate --pattern labels.txt
rank-collapse broken.safetensors
approximate --verify broken.safetensors
sweep --glob 'broken.json'
ci --config labels.txt
"""
"""Files that are broken."""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


OF_KINDS = [form.format(name) for form, takes in TAKERS.items() for name in KINDS if name not in takes]  # fmt: skip
REFUSALS: tuple[Case, ...] = tuple(refused(line) for line in dict.fromkeys([*lines(WORDS), *lines(TOGETHER), *OF_KINDS, *lines(BROKEN)]))  # fmt: skip
