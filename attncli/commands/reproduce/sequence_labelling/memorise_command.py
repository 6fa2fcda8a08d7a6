"""`attn reproduce memorise`"""

from attncli.commands.reproduce.options import TrainingOptions
from attncli.commands.reproduce.sequence_labelling.options import LabellingOptions, MemoriseOptions
from attncli.options.run_and_output import RunOptions
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn reproduce memorise
attn reproduce memorise --sequences 50 --length 8 --evaluate frozen
attn reproduce memorise --as-published --seeds 1 --tokens-from text.txt
"""


@question()
def memorise(
    *,
    sequences: MemoriseOptions,
    options: LabellingOptions,
    training: TrainingOptions,
    run: RunOptions,
    how: RunContext,
) -> Report:
    """How well do a few paths of one length recall random labels that a network has learned by heart?

    After "Attention is not all you need": networks of attention are trained here first, one for each seed. Then sums of a
    few random paths of one length are measured: with the attention of the full pass kept, and as sub-networks that run
    on their own.
    """
    from attncli.commands.reproduce.sequence_labelling.run import train_on_task_and_build_report

    return train_on_task_and_build_report("memorise", options, training, run, how, sequences)
