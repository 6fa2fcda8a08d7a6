"""The golden list: what is measured, in the words of today; the words of the design come from `spelling.py`."""

from golden.case_types import Call, Case, Command, Write, called, measured, run
from golden.refusals import REFUSALS

TINY = "'random:bert?layers=2&width=16&heads=2'"
DECODER = "'random:gpt2?layers=2&width=16&heads=2'"
SIZES = "--layers 3 --tokens 5 --width 8 --heads 2"
NET = f"rank-collapse {SIZES} --seeds 2"
TRAINED = "--width 8 --seeds 1 --train-steps 4"
MINILM = "{minilm}"
"""A trained checkpoint; `forked.py` puts its folder."""
FORMATS = ("table", "csv", "markdown", "json", "jsonl", "junit", "github")

MODELS = (
    "albert", "bert", "big_bird", "bloom", "convbert", "deberta", "gpt_neo", "gpt_oss", "llama", "roformer", "t5",
    "xlnet", "gemma3_text", "bart",
)  # fmt: skip
OTHERS = ("vit", "swin", "clip", "dinov2", "hubert", "mamba", "rwkv", "qwen3_next", "whisper", "lfm2", "funnel")  # fmt: skip
"""Vision, sound, several towers, linear mixers, hybrids, and models whose forwards have effects."""


SIZED = {
    "gpt_oss": "layers=2&width=32&heads=2&kv-heads=1",
    "gemma3_text": "layers=2&width=32&heads=2&kv-heads=1",
    "lfm2": "layers=2&width=32&heads=2&kv-heads=1",
    "swin": "image_size=64&window_size=4&patch_size=2&embed_dim=24",
    "mamba": "layers=2&width=32",
    "rwkv": "layers=2&width=32",
}
"""Sizes of models that cannot have those of the others."""


def small(name: str) -> str:
    """Without a width the size is the architecture's own, which costs seconds."""
    return f"'random:{name}?{SIZED.get(name, 'layers=2&width=32&heads=2')}'"


NETWORKS = (
    measured("network", f"{NET}"),
    measured("network: every metric", f"{NET} --metric log10_residual,stable_rank,effective_rank,log10_token_cosine_gap,clusters,cluster_energy,spike_ratio,participation_ratio"),
    measured("network: the defaults", "rank-collapse --seeds 1"),
    measured("network: switches", f"{NET} --no-skip --norm layer --mlp"),
    measured("network: norms after, causal, relative positions", f"{NET} --norm rms --norm-position post --mask causal --positions relative"),
    measured("network: rotary, windows, biases, gelu", f"{NET} --positions rope --mask window:2 --biases --activation gelu --key-width 6 --mlp-width 12"),
    measured("network: gated", f"{NET} --attention gated --gates"),
    measured("network: sinkhorn", f"{NET} --attention sinkhorn:3"),
    measured("network: outlier removed", f"{NET} --variants SAN,SAN+skip --remove-outlier"),
    measured("network: theorem", f"{NET} --theorem --variants pure"),
    measured("network: no gap between blocks", f"{NET} --metric angular_distance --blocks 2"),
    measured("network: lengths", "rank-collapse --layers 1 --width 8 --heads 2 --seeds 2 --sweep tokens=4:16 --remove-outlier"),
    measured("network: widths and gradients", "rank-collapse --layers 2 --tokens 5 --heads 1 --seeds 2 --sweep width=4,8 --gradients"),
    measured("network: depth swept", "rank-collapse --tokens 5 --width 8 --heads 2 --seeds 1 --sweep layers=2:8"),
    measured("network: from a file", "rank-collapse net.safetensors"),
    measured("network: from a file, one metric", "rank-collapse net-7.safetensors --metric stable_rank"),
    measured("network: paths", f"paths {SIZES} --seeds 2"),
    measured("network: paths by head", f"paths {SIZES} --seeds 2 --by head"),
    measured("network: paths sampled", f"paths {SIZES} --seeds 1 --sample 3"),
    measured("network: one path", f"paths {SIZES} --seeds 1 --path 1,0,2 --path 0,0,0"),
    measured("network: paths without skips", f"paths {SIZES} --seeds 1 --no-skip"),
    measured("network: paths with norms", f"paths {SIZES} --seeds 1 --norm layer --metric log10_residual"),
    measured("network: paths of a file", "paths net.safetensors"),
    measured("paths counted", "paths --count --layers 6 --heads 3"),
    measured("paths counted without skips", "paths --count --layers 6 --heads 3 --no-skip"),
    measured("paths of a file counted", "paths net.safetensors --count"),
    measured("paths of a model counted", "paths ./bert --count"),
)  # fmt: skip

COLLAPSE_OF_MODELS = (
    measured("rank-collapse: bert", f"rank-collapse {TINY} --random-tokens 8"),
    measured("rank-collapse: exact", f"rank-collapse {TINY} --random-tokens 8 --exact"),
    measured("rank-collapse: plain numbers", f"rank-collapse {TINY} --random-tokens 8 --arithmetic float64"),
    measured("rank-collapse: one precision", f"rank-collapse {DECODER} --random-tokens 8 --dtype float32 --variants transformer"),
    measured("rank-collapse: all variants", f"rank-collapse {DECODER} --random-tokens 8 --variants all"),
    measured("rank-collapse: pure", f"rank-collapse {TINY} --random-tokens 6 --variants pure --no-norms"),
    measured("rank-collapse: one by switches", f"rank-collapse {TINY} --random-tokens 6 --no-skip --no-mlp --mlp-norm"),
    measured("rank-collapse: sub-blocks", f"rank-collapse {TINY} --random-tokens 6 --sub-blocks --variants transformer"),
    measured("rank-collapse: theorem", f"rank-collapse {TINY} --random-tokens 6 --theorem --variants SAN"),
    measured("rank-collapse: depth, spike", f"rank-collapse {DECODER} --random-tokens 8 --metric depth,spike --variants transformer"),
    measured("rank-collapse: samples and random weights", "rank-collapse ./bert --random-tokens 8 --samples 3 --with-random-init --seed 2"),
    measured("rank-collapse: a folder with texts", "rank-collapse ./gpt2 --text-file essays.txt --variants SAN,transformer"),
    measured("rank-collapse: bfloat16", "rank-collapse ./gpt2-half --random-tokens 8 --variants transformer --dtype bfloat16"),
    measured("rank-collapse: several stacks", "rank-collapse ./t5 --text-file essays.txt"),
    measured("rank-collapse: vision", "rank-collapse ./vit --samples 2 --variants SAN,transformer"),
    measured("rank-collapse: stateful", "rank-collapse 'random:big_bird?layers=2&width=32&heads=2' --random-tokens 12 --variants SAN,transformer"),
    measured("rank-collapse: grouped keys", "rank-collapse ./llama --token-ids 2,5,6,7 --token-ids 2,9,10,3 --variants paper"),
    measured("rank-collapse: trained", f"rank-collapse {MINILM} --text 'The quick brown fox.' --variants SAN,transformer"),
)  # fmt: skip

HEADS = (
    *(measured(f"heads: {name}", f"inspect-model {small(name)} --random-tokens 12") for name in MODELS),
    *(measured(f"heads: {name}", f"inspect-model {small(name)}") for name in OTHERS),
    measured("heads: reformer", "inspect-model 'random:reformer?layers=2&width=32&heads=2' --random-tokens 12"),
    measured("heads: all metrics", f"inspect-model {DECODER} --random-tokens 10 --metric all"),
    measured("heads: attention, spectra", "inspect-model ./bert --text-file essays.txt --metric attention,spectra"),
    measured("heads: states", "inspect-model ./bert --text-file essays.txt --metric states"),
    measured("heads: copying, lazy, sinks", "inspect-model ./gpt2 --text-file essays.txt --metric copying,lazy,sinks"),
    measured("heads: nulls", "inspect-model ./bert --text-file essays.txt --with-random-init --with-shuffled-text"),
    measured("heads: ranked", "inspect-model ./gpt2 --text-file essays.txt --metric roles --top 2 --sort induction"),
    measured("heads: chosen", "inspect-model ./bert --text-file essays.txt --metric sink --layers 1 --heads 0"),
    measured("heads: pairs", "inspect-model ./bert --text 'The dog barked at her.' --pairs 3"),
    measured("heads: bfloat16", "inspect-model ./gpt2-half --text-file essays.txt"),
    measured("heads: gates and memory", "inspect-model 'random:qwen3_next?layers=2&width=32&heads=2' --random-tokens 10 --metric gates,memory"),
    measured("heads: token ids of a file", "inspect-model ./llama --token-ids @ids.json --metric entropy,sink"),
    measured("heads: jsonl texts, cut", "inspect-model ./bert --text-file texts.jsonl --tokens 4 --metric entropy"),
    measured("heads: narrow strips", f"inspect-model {DECODER} --random-tokens 32 --strip-memory 1 --metric attention"),
    measured("heads: trained", f"inspect-model {MINILM} --text 'A dog barked at her.' --metric attention,roles"),
    measured("heads: several stacks", "inspect-model ./t5 --text-file essays.txt --metric roles"),
    measured("heads: classifier", "inspect-model ./classifier --text-file essays.txt --metric max_logit,qk_clip"),
    Case("heads: saved maps", (
        Command("inspect-model ./bert --text-file essays.txt --save-maps kept.safetensors --heads 0.0,1.1 -o r.json"),
        Command("inspect-model kept.safetensors --metric attention,spectra -o again.json", "inspect-maps kept.safetensors --metric attention,spectra -o again.json"),
    )),
    measured("dispersion", f"inspect-model {DECODER} --sweep tokens=4:16"),
    measured("dispersion of a text", "inspect-model ./bert --text-file essays.txt --sweep tokens=4,8 --metric entropy"),
    measured("attribution", "inspect-model ./bert --text 'The dog barked at her.' --attribute dog"),
    measured("attribution of the last token", "inspect-model ./gpt2 --token-ids 2,5,6,7,9 --attribute -1"),
    measured("attribution, relevance", "inspect-model ./classifier --text 'The dog barked at her.' --attribute 0 --relevance top"),
    measured("attribution in two stacks", "inspect-model ./t5 --token-ids 2,5,6,7 --attribute 1"),
    measured("weights", "inspect-model ./bert --weights-only"),
    measured("weights: all metrics", "inspect-model ./gpt2 --weights-only --metric weights"),
    measured("weights: grouped keys", "inspect-model ./llama --weights-only --metric qk_stable_rank,ov_stable_rank --layers 1"),
    measured("weights: random", "inspect-model 'random:bert?layers=2&width=32&heads=2' --weights-only"),
    measured("weights: trained", f"inspect-model {MINILM} --weights-only --layers 0"),
    measured("maps: safetensors", "inspect-model maps.safetensors"),
    measured("maps: numpy", "inspect-model maps.npy --metric attention --labels labels.txt --pairs 2"),
    measured("maps: several", "inspect-model maps.npz --metric spectra,roles"),
    measured("maps: a batch", "inspect-model maps-batch.npy --batch 1 --layers 0"),
    measured("paths of bert", f"paths {TINY} --random-tokens 8"),
    measured("paths by head", f"paths {DECODER} --random-tokens 8 --by head"),
    measured("paths by steps", f"paths {TINY} --random-tokens 6 --by steps"),
    measured("paths with MLPs", f"paths {TINY} --random-tokens 6 --steps attention,mlp"),
    measured("paths sampled", f"paths {TINY} --random-tokens 6 --sample 2"),
    measured("paths: loss", "paths ./gpt2 --text-file essays.txt --loss"),
    measured("paths of the decoder", "paths ./t5 --token-ids 2,5,6,7 --stack decoder"),
    measured("paths of images", "paths ./vit --samples 2"),
    measured("paths of llama", "paths ./llama --token-ids @ids.json"),
    measured("sensitivity", f"paths {DECODER} --random-tokens 8 --sensitivity"),
    measured("sensitivity, few directions", "paths ./llama --token-ids 2,5,6,7,9 --sensitivity --directions 3"),
)  # fmt: skip

FITS = (
    measured("fit", "approximate --pattern window:2 --length 8"),
    measured("fit: several patterns", "approximate --pattern previous --pattern global:2+window:3 --length 10"),
    measured("fit: the default's kind", "approximate --pattern random:k=2 --length 12 --seed 3"),
    measured("fit: width given", "approximate --pattern previous --length 8 --width 3"),
    measured("fit: methods", "approximate --pattern random:k=2 --length 8 --method auto,cyclic,jl,convex,certificate --allow-unmet"),
    measured("fit: learned", "approximate --pattern block:2 --length 6 --width 4 --method learned --effort 1 --allow-unmet"),
    measured("fit: bfloat16 and a budget", "approximate --pattern strided:3 --length 8 --dtype bfloat16 --logit-budget 60 --allow-unmet"),
    measured("fit: causal", "approximate --pattern tree --length 8 --causal --allow-unmet"),
    measured("fit: an array", "approximate --pattern pattern.npy"),
    measured("fit: a head's pattern", "approximate --pattern ./bert:0.0:top=2 --text 'The dog barked at her.'"),
    measured("fit: requested accuracy", "approximate --pattern previous --length 8 --total-variation 0.1 --ratio-error 0.5 --off-support 0.1"),
    measured("fit: decided", "approximate --decide --pattern window:2 --length 6"),
    measured("fit: decided at a width", "approximate --decide --pattern window:2 --length 6 --width 2"),
    measured("fit: frontier", "approximate --pattern random:k=2 --length 8 --frontier 3:6"),
    measured("fit: lengths", "approximate --pattern previous --sweep length=4:16 --seeds 2"),
    measured("fit: lengths and frontier", "approximate --pattern permutation --sweep length=4:8 --frontier 2,3 --method cyclic,certificate:keys=spread --total-variation 0.999"),
    run("fit: written", "approximate --pattern previous --pattern block:2 --length 8 -o kept.safetensors", "approximate --verify kept.safetensors -o r.json"),
    measured("fit: verified", "approximate --verify fit.safetensors"),
    measured("head's capacity", "approximate --module ./bert:0.1 --pattern previous --length 6"),
    measured("head's capacity: rotary", "approximate --module ./llama:1.0 --pattern strided:3 --length 6"),
    run("head's capacity: written", "approximate --module ./bert:0.1 --pattern previous --length 6 -o kept.safetensors", "approximate --verify kept.safetensors -o r.json"),
    measured("head's capacity: embeddings", "approximate --module ./gpt2:0.0 --inputs embeddings --pattern previous --length 5"),
    measured("heads' capacities", "approximate --heads ./bert --random-tokens 8 --length 8"),
    measured("trained heads' capacity", f"approximate --module {MINILM}:0.2 --pattern previous --length 8"),
)  # fmt: skip

TASKS = (
    measured("circle", f"rank-collapse --task circle {TRAINED} --recurrence 6"),
    measured("circle: one variant", f"rank-collapse --task circle {TRAINED} --recurrence 6 --no-skip --no-mlp --metric stable_rank"),
    measured("circle: as published", f"rank-collapse --task circle {TRAINED} --recurrence 4 --as-published --variants SAN"),
    measured("circle: widths", "rank-collapse --task circle --sweep width=8:16 --seeds 1 --train-steps 0 --recurrence 5"),
    measured("memorise", f"paths --task memorise --layers 2 {TRAINED} --sequences 6 --length 5 --paths-per-sum 2,5"),
    measured("memorise: a text", f"paths --task memorise --layers 2 {TRAINED} --sequences 4 --length 4 --tokens-from essays.txt --evaluate frozen"),
    measured("sort", f"paths --task sort --layers 2 {TRAINED} --heads 2 --evaluate rerun --paths-per-sum 2"),
    measured("convex hull", f"paths --task convex-hull --layers 2 {TRAINED} --heads 2 --paths-per-sum 2"),
    measured("rank-heads", "approximate --task rank-heads --dimension 4 --ranks 1,4 --train-steps 5 --seeds 1"),
    measured("rank-heads: sizes", "approximate --task rank-heads --dimension 4 --ranks 2 --heads-times-rank 8 --length 3 --train-steps 3 --seeds 2"),
    run("circle: kept and gone on", *2 * (f"rank-collapse --task circle {TRAINED} --recurrence 4 --variants SAN --save-training kept --watch-training 2 -o r.json",)),
    run("sort: kept and gone on", *2 * (f"paths --task sort --layers 2 {TRAINED} --heads 2 --paths-per-sum 2 --save-training kept -o r.json",)),
    run("rank-heads: kept and gone on", *2 * ("approximate --task rank-heads --dimension 4 --ranks 1,4 --train-steps 5 --seeds 1 --save-training kept -o r.json",)),
)  # fmt: skip

OUTPUTS = (
    *(run(f"format {name}: networks", f"{NET} --format {name} --fail-if 'log10_residual[SAN, layer=-1] < -0.01'") for name in FORMATS),
    *(run(f"format {name}: heads", f"inspect-model ./bert --text-file essays.txt --format {name} --fail-if 'mean(sink) > 2'") for name in FORMATS),
    *(run(f"format {name}: fits", f"approximate --pattern previous --length 6 --format {name}") for name in ("table", "csv", "markdown")),
    *(run(f"format {name}: paths", f"paths {SIZES} --seeds 1 --format {name}") for name in ("table", "csv", "markdown")),
    run("format html: heads", "inspect-model ./bert --text 'The dog barked at her.' -o r.html"),
    run("format html: networks", f"{NET} -o r.html"),
    run("format html: attribution", "inspect-model ./bert --text 'The dog barked.' --attribute dog -o r.html"),
    run("format html: maps", "inspect-model maps.npy -o r.html"),
    run("format html: fits", "approximate --pattern window:2 --length 6 -o r.html"),
    run("plotted in the terminal", f"{NET} --plot"),
    run("plotted in the terminal: heads", "inspect-model ./bert --text-file essays.txt --heads 0.0 --plot"),
    run("plotted to a file", f"{NET} --plot curves.png --figure-size 4x3", f"{NET} --plot curves.svg"),
    run("endings", *(f"{NET} -o r.{ending}" for ending in ("csv", "md", "jsonl", "txt"))),
    run("quiet, and a gate that fails", f"{NET} -q --fail-if 'log10_residual[SAN, layer=-1] < -0.01' -o r.json"),
    run("two processes", "inspect-model ./bert --text-file essays.txt --metric attention --processes 2 -o r.json"),
    run("two processes: variants", "rank-collapse ./bert --text-file essays.txt --variants SAN --processes 2 -o r.json"),
    run("two processes: paths", "paths ./bert --text-file essays.txt --processes 2 -o r.json"),
    *(run(f"generate network {name}", f"generate network {SIZES} {more} -o made.safetensors") for name, more in {"plain": "", "gated": "--attention gated --positions rope --no-skip", "biased": "--biases --norm rms --seed 5"}.items()),
    run("generate maps", "generate maps --map uniform:causal=true --map iid:sigma=2 --map window:3 --map dirichlet --map previous_token --map permutation --map block:2 --map self_token --tokens 7 --heads 2 --seed 1 -o made.safetensors"),
    *(run(f"list {what}", f"list {what} --format json") for what in ("metrics", "attention-metrics", "weight-metrics", "activation-metrics", "patterns", "variants", "maps")),
)  # fmt: skip

CHECKS = """[rank-collapse]
seeds = 2

[checks.collapse]
command = "rank-collapse --layers 2 --tokens 5 --width 8 --heads 2 --variants SAN"
fail-if = ["log10_residual[layer=-1] < -30"]
baseline = "accepted/collapse.json"
fail-on = "log10_residual:1e-9"

[checks.heads]
command = "inspect-model ./bert --token-ids 2,5,6,7 --metric sink"
fail-if = ["max(sink) > 0.001"]

[checks.weights]
command = "inspect-model ./bert --weights-only"

[checks.saved]
report = "report.json"
fail-if = ["order > 1e9"]
"""
DEFAULTS = """[rank-collapse]
seeds = 3
mask = "causal"
text-file = "essays.txt"

[inspect-model]
metric = "sink"
text-file = "essays.txt"

[paths]
sample = 2
seeds = 2

[approximate]
length = 8
decide = true
"""
SHOWN = ("", "rank-collapse", f"rank-collapse {TINY}", "rank-collapse net.safetensors", f"inspect-model {TINY}", f"inspect-model {TINY} --random-tokens 4",
    "paths", "paths --by head", f"paths {TINY}", "approximate", "approximate --frontier 2:4")  # fmt: skip
SWEPT = "sweep rank-collapse --glob 'net*.safetensors' --variants SAN --into out"

RUNS_OF_RUNS = (
    run("check: gates", "check report.json --fail-if 'log10_residual[SAN, layer=-1] < -0.01' --fail-if 'order > 1e9'"),
    run("check: a baseline that moved", "check report-other.json --baseline report.json --fail-on 'log10_residual:1e-6' --fail-on 'order:5%'"),
    run("check: in spreads", "check report-heads-other.json --baseline report-heads.json --fail-on 'sink:2s' --family-wise 0.05"),
    run("check: no baseline", "check report.json --baseline none.json --fail-on 'log10_residual:1'"),
    run("check: of stdin", "check - --format markdown < report.json"),
    *(run(f"check: {name}", f"check report-heads.json --format {name}") for name in FORMATS),
    run("compare: networks", "compare report.json report-other.json -o r.json", "check r.json"),
    run("compare: heads", "compare report-heads.json report-heads-other.json --top 5 --family-wise 0.05 -o r.json", "check r.json"),
    run("compare: gate", "compare report-heads.json report-heads-other.json --fail-if 'change_in_spreads[measured=sink] > 0'"),
    run("compare: models", "compare ./bert ./bert-2 --by 'inspect-model --metric sink --random-tokens 6' -o r.json", "check r.json"),
    run("compare: models' weights", "compare ./bert ./bert-2 --by 'inspect-model --weights-only --layers 0' -o r.json"),
    run("compare: models' paths", "compare ./bert ./bert-2 --by 'paths --random-tokens 6' -o r.json"),
    run("sweep, gone on", f"{SWEPT} -o r.json", f"{SWEPT} --show 'log10_residual[layer=-1]' --format csv", "sweep --collect out", f"{SWEPT} --list-items", files=("net.safetensors", "net-7.safetensors")),
    run("sweep: of finished reports", "sweep --glob 'report-heads*.json' --show 'max(sink)'", files=("report-heads.json", "report-heads-other.json")),
    run("sweep: models in a list", "sweep paths --models-file models.txt --into out --format json", "sweep --collect out --format json", files=("net.safetensors", "net-7.safetensors")),
    run("sweep: of weights, one cut off", "sweep inspect-model --model ./bert --model ./cut --weights-only --metric qk_stable_rank --into out --format json"),
    run("sweep: of heads", "sweep inspect-model --model ./bert --model ./gpt2 --random-tokens 6 --show 'mean(sink)' --into out --format json"),
    Case("ci: run, accepted, moved", (
        Write("attn.toml", CHECKS, CHECKS.replace("inspect-model ./bert --weights-only", "inspect-weights ./bert")),
        Command("ci collapse saved --config attn.toml --keep reports"),
        Command("ci --accept collapse --config attn.toml"),
        Command("ci heads weights collapse --config attn.toml --format json"),
        Write("attn.toml", CHECKS.replace("seeds = 2", "seeds = 3")),
        Command("ci collapse --config attn.toml"),
        Command("ci --accept --config attn.toml"),
    )),
    *(Case(f"config show {line}".strip(), (Write("attn.toml", DEFAULTS + "# essays.txt"), Command(f"config show {line} --config attn.toml".replace("  ", " ")))) for line in SHOWN),
    Case("config: defaults apply", (Write("attn.toml", DEFAULTS), Command("rank-collapse --layers 2 --tokens 4 --width 4 --heads 1 --config attn.toml --format json"))),
    Case("config: the environment", (Command("config show rank-collapse"), Command(f"rank-collapse {SIZES} --variants SAN --format json")), (("ATTN_RANK_COLLAPSE_SEEDS", "3"), ("ATTN_RANK_COLLAPSE_NORM", "layer"))),
)  # fmt: skip

MAPS = "np.random.default_rng(0).dirichlet(np.ones(5), size=(2, 3, 5))"
CALLS = (
    called("python: networks", "attn.rank_collapse(layers=3, tokens=5, width=8, heads=2, seeds=2)"),
    called("python: paths", "attn.paths(layers=3, tokens=5, width=8, heads=2, seeds=1, by='head')"),
    called("python: paths counted", "attn.paths(count=True, layers=5, heads=2)"),
    called("python: fit of an array", "attn.approximate(patterns=['previous', np.eye(6)], length=6)"),
    called("python: fit written", "[attn.approximate(pattern='previous', length=6, save_module='kept.safetensors'), there('kept.safetensors')]"),
    called("python: own maps", f"attn.measure({MAPS})"),
    called("python: own maps, metrics", f"attn.measure({MAPS}, metrics=['entropy', 's1'])"),
    called("python: own maps, labels", f"attn.measure(torch.tensor({MAPS}), labels=list('abcde'), pairs=2)"),
    called("python: maps of a model's output", "attn.measure(bert().set_attn_implementation('eager') or (lambda m: m.set_attn_implementation('eager') or m(torch.tensor([[2, 5, 6, 7]]), output_attentions=True).attentions)(bert()))"),
    called("python: module, token ids", "left_alone(attn, bert(), token_ids=[[2, 5, 6, 7], [2, 9, 10, 3]])"),
    called("python: module in training", "left_alone(attn, llama().train(), token_ids=[2, 5, 6, 7], metric='attention')"),
    called("python: module, padded batch", "attn.inspect_model(bert(), inputs=padded(), metric='attention,states')"),
    called("python: module, pictures", "attn.inspect_model(vit(), inputs=pixels())"),
    called("python: encoder of torch", "left_alone(attn, encoder(), inputs=states())"),
    called("python: encoder of torch, several", "attn.inspect_model(encoder(), inputs=[states(5), states(7)], metric='entropy')"),
    called("python: module's collapse", "attn.rank_collapse(llama().eval(), token_ids=[2, 5, 6, 7], variants='SAN,transformer')"),
    called("python: module's collapse, pictures", "attn.rank_collapse(vit(), inputs={'pixel_values': pixels()}, variants='SAN')"),
    called("python: module's paths", "attn.paths(bert(), token_ids=[2, 5, 6, 7])"),
    called("python: two stacks", "attn.inspect_model(t5(), random_tokens=6)"),
    called("python: module's weights", "attn.inspect_model(llama(), weights_only=True, metric='weights')"),
    called("python: module's attribution", "attn.inspect_model(bert(), token_ids=[2, 5, 6, 7], attribute=-1)"),
    called("python: module's lengths", "attn.inspect_model(llama().eval(), token_ids=[2, 5, 6, 7, 9, 10, 11, 12], sweep='tokens=4:8')"),
    called("python: module's sensitivity", "attn.paths(llama().eval(), token_ids=[2, 5, 6, 7], sensitivity=True)"),
    called("python: in float64", "attn.inspect_model(bert().double(), token_ids=[2, 5, 6, 7], metric='entropy,sink')"),
    called("python: in bfloat16", "attn.inspect_model(bert().to(torch.bfloat16), token_ids=[2, 5, 6, 7], metric='entropy,sink')"),
    called("python: circle", "attn.rank_collapse(task='circle', width=8, seeds=1, train_steps=3, recurrence=4)"),
    called("python: sort", "attn.paths(task='sort', layers=2, width=8, heads=2, seeds=1, train_steps=3, paths_per_sum=2)"),
    called("python: rank-heads", "attn.approximate(task='rank-heads', dimension=4, ranks=[1, 4], train_steps=3, seeds=1)"),
    called("python: gates", "(lambda r: [r.check('log10_residual < -1e9'), r.check('log10_residual < 1e9').passed, r.to_dicts()[:2], r.headline])(attn.rank_collapse(layers=2, tokens=4, width=4, heads=1, seeds=1))"),
    called("python: compared", "attn.compare(attn.rank_collapse(layers=2, tokens=4, width=4, heads=1, seeds=2), attn.rank_collapse(layers=2, tokens=4, width=4, heads=1, seeds=2, seed=7))"),
    called("python: generated", "[attn.generate_network('net.safetensors', layers=2, tokens=4, width=4, heads=1), attn.generate_maps('maps.safetensors', map=['sink'], tokens=4), attn.rank_collapse('./net.safetensors'), attn.inspect_model('./maps.safetensors')]",
        "[attn.generate_network('net.safetensors', layers=2, tokens=4, width=4, heads=1), attn.generate_maps('maps.safetensors', map=['sink'], tokens=4), attn.rank_collapse('./net.safetensors'), attn.inspect_maps('./maps.safetensors')]"),
    Case("python: saved and read", (Call("attn.read('report.json')"), Call("[attn.read('report.json').save(f'r.{e}') for e in ('csv', 'md', 'json')]"))),
    called("monitor: probe", "loop(attn)"),
    called("monitor: batches", "loop(attn, measure='batch', metrics=['max_logit', 'sink'])"),
    called("monitor: stopped", "loop(attn, stop_if='max(max_logit) > 0.01', each_layer=True)"),
    called("callback: probe", "trained()"),
    called("callback: batches, warned", "trained(measure='batch', warn_if='max(sink) > 0.01')"),
    *(called(f"python refuses: {code}", f"{code}") for code in (
        "attn.rank_collapse(layers=0)", "attn.rank_collapse(layrs=3)", "attn.rank_collapse(metric='stable_rnk')",
        "attn.inspect_model(bert())", "attn.inspect_model(bert(), text='a')", "attn.inspect_model(object())", "attn.inspect_model('./nowhere')",
        "attn.measure(np.ones((3, 3)))", "attn.measure('maps')", "attn.approximate(patterns=[np.zeros((3, 3))])", "attn.paths(encoder(), inputs=states())",
        "attn.read('none.json')", "attn.Monitor(bert(), every=0)", "attn.Monitor(bert(), stop_if='sink')", "attn.rank_collapse(encoder(), inputs=states())",
        "attn.inspect_model(bert(), token_ids=[2, 5], seeds=3)", "attn.paths(layers=3, loss=True)", "attn.compare(1, 2)")),
)  # fmt: skip

CASES = (*NETWORKS, *COLLAPSE_OF_MODELS, *HEADS, *FITS, *TASKS, *OUTPUTS, *RUNS_OF_RUNS, *CALLS, *REFUSALS)  # fmt: skip
