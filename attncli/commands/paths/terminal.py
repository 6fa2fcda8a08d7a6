"""`attn paths`"""

from attncli.cli.run_question import shared_command_of
from attncli.commands.paths.command import paths as question

EXAMPLES = """
attn paths                                          12 layers of attention with skips, 5 seeds
attn paths ./checkpoint --text-file essays.txt --steps attention,mlp
attn paths gpt2 --by head                           share of the output through each head
attn paths gpt2 --loss                              what short paths alone predict
attn paths --task sort                              what a few paths do alone in networks trained to sort
attn paths gpt2 --by steps                          shares by how many attentions and how many MLPs
attn paths --layers 3 --heads 2 --norm layer --metric log10_residual
attn paths --count --layers 96 --heads 96           count alone, from sizes: nothing is run
attn paths --path 1,0,0,3,0,0,0,0,0,0,0,2           one path: head 1, then two skips, head 3 …
attn paths --sample 50 --plot                       longer paths are closer to rank 1
attn paths random:bert --random-tokens 128 --sample 100
attn paths random:bert --random-tokens 128 -o paths.json
attn paths net.safetensors --fail-if 'completeness_error > 1e-12'
attn paths --task convex-hull --evaluate frozen --save-training runs
"""

paths = shared_command_of(question)
