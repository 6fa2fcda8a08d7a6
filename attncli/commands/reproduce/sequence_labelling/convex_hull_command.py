"""`attn reproduce convex-hull`"""

from attncli.commands.reproduce.options import TrainingOptions
from attncli.commands.reproduce.sequence_labelling.options import LabellingOptions
from attncli.options.run_and_output import RunOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn reproduce convex-hull
attn reproduce convex-hull --evaluate frozen --save-training runs
"""


@question()
def convex_hull(
    *, options: LabellingOptions, training: TrainingOptions, run: RunOptions, how: RunContext
) -> Report:
    """How well do a few paths of one length find the corners of a cloud of points, in a network trained to find them?

    After "Attention is not all you need": networks of attention are trained here first, one for each seed. Then sums of a
    few random paths of one length are measured: with the attention of the full pass kept, and as sub-networks that run
    on their own.
    """
    from attncli.commands.reproduce.sequence_labelling.run import train_on_task_and_build_report

    return train_on_task_and_build_report("convex-hull", options, training, run, how)
