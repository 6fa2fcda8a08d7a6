"""`attn rank-collapse`"""

from attncli.cli.run_question import shared_command_of
from attncli.commands.rank_collapse.command import rank_collapse as question

EXAMPLES = """
attn rank-collapse                                  four variants, 12 layers, 5 seeds
attn rank-collapse bert-base-uncased --with-random-init
attn rank-collapse ./checkpoint --text-file essays.txt --variants pure --plot
attn rank-collapse --mask causal --plot             a mask leaves a linear rate
attn rank-collapse --task circle                    one trained layer, applied again and again
attn rank-collapse --no-skip --norm layer           one variant, by its switches
attn rank-collapse --metric stable_rank,log10_token_cosine_gap -o curves.csv
attn rank-collapse --layers 1 --sweep tokens=16:1024 --remove-outlier
attn rank-collapse random:bert --random-tokens 128 --arithmetic float64
attn rank-collapse net.safetensors --fail-if 'log10_residual[SAN+skip, layer=-1] < -3'
attn rank-collapse --task circle --as-published --width 32 --save-training runs
"""

rank_collapse = shared_command_of(question)
