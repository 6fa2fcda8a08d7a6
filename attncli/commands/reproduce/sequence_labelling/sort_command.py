"""`attn reproduce sort`"""

from attncli.commands.reproduce.options import TrainingOptions
from attncli.commands.reproduce.sequence_labelling.options import LabellingOptions
from attncli.options.run_and_output import RunOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn reproduce sort
attn reproduce sort --layers 2 --seeds 2 --paths-per-sum 5
attn reproduce sort --save-training runs --watch-training 100
"""


@question()
def sort(
    *, options: LabellingOptions, training: TrainingOptions, run: RunOptions, how: RunContext
) -> Report:
    """How well do a few paths of one length sort digits, in a network trained to sort them?

    After "Attention is not all you need": networks of attention are trained here first, one for each seed. Then sums of a
    few random paths of one length are measured: with the attention of the full pass kept, and as sub-networks that run
    on their own.
    """
    from attncli.commands.reproduce.sequence_labelling.run import train_on_task_and_build_report

    return train_on_task_and_build_report("sort", options, training, run, how)
