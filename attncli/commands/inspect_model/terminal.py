"""`attn inspect-model`"""

from attncli.cli.run_question import shared_command_of
from attncli.commands.inspect_model.command import inspect_model as question

EXAMPLES = """
attn inspect-model gpt2                                     what each head does, on one screen
attn inspect-model ./checkpoint --text-file essays.txt --with-random-init -o heads.json
attn inspect-model ./checkpoint --metric attention,roles --top 10 --sort induction
attn inspect-model random:llama --random-tokens 512 --metric entropy_normalised --layers 0-1
attn inspect-model ./checkpoint --heads 5.1,5.3 --plot heads.png --save-maps maps.safetensors
attn inspect-model maps.safetensors --metric spectra
attn inspect-model ./checkpoint --weights-only --metric qk_stable_rank,ov_stable_rank
attn inspect-model ./checkpoint --text 'A dog barked at her.' --attribute dog
attn inspect-model ./checkpoint --fail-if 'mean(sink) > 0.5'
"""

inspect_model = shared_command_of(question)
