"""`attn compare`"""

from attncli.api.compare import compare as question
from attncli.cli.answering import command_of

EXAMPLES = """
attn compare main.json branch.json                          what changed, largest first
attn compare main.json branch.json --family-wise .05        … and which changes noise does not explain
attn compare step1000.json step2000.json --top 50 --format markdown
attn compare ./checkpoint-100 ./checkpoint-200 --by 'inspect-model --metric sink'
attn compare old.json new.json --fail-if 'change_in_spreads[measured=sink] > 3'
"""

compare = command_of(question)
