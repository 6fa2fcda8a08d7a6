"""`attn approximate`"""

from attncli.cli.run_question import command_of
from attncli.commands.approximate.command import approximate as question

EXAMPLES = """
attn approximate                                             one random pattern, the narrowest module
attn approximate --pattern window:3 --pattern global:2+window:3 --length 128 -o fit.safetensors
attn approximate --decide --pattern window:3 --length 64
attn approximate --decide --pattern window:3 --length 64 --width 2
attn approximate --verify fit.safetensors
attn approximate --pattern random:k=2 --method auto,cyclic,jl --dtype float32
attn approximate --pattern previous --sweep length=64:1024 --seeds 3
attn approximate --pattern random:k=2 --frontier 4:64 --plot
attn approximate --module ./minilm:0.0 --pattern previous --pattern strided:8 --length 64
attn approximate --module ./minilm:0.2 --inputs embeddings --pattern previous --length 24
attn approximate --heads ./minilm --length 64
attn approximate --pattern ./minilm:0.0:top=4 --text "The quick brown fox jumps over the lazy dog."
attn approximate --task rank-heads --ranks 1,8 --seeds 3
attn approximate --pattern permutation --sweep length=64:1024 --frontier 2,3,4,5,6,7,8 --method cyclic,certificate:keys=spread --total-variation 0.999
"""

approximate = command_of(question)
