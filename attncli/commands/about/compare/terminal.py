"""`attn compare`"""

from attncli.cli.run_question import command_of
from attncli.commands.about.compare.command import compare as question

EXAMPLES = """
attn compare main.json branch.json                          what changed, largest first
attn compare main.json branch.json --family-wise .05        … and which changes noise does not explain
attn compare step1000.json step2000.json --top 50 --format markdown
attn compare ./checkpoint-100 ./checkpoint-200 --by 'inspect-model --metric sink'
attn compare old.json new.json --fail-if 'change_in_spreads[measured=sink] > 3'
"""

compare = command_of(question)
