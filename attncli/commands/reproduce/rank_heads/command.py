"""`attn reproduce rank-heads`"""

from attncli.commands.reproduce.options import SavedTrainingOptions
from attncli.commands.reproduce.rank_heads.options import HeadRankOptions, TrainingSeeds
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn reproduce rank-heads                           # ranks 1, 2, 4, 8 at H · r = 8 and 32
attn reproduce rank-heads --ranks 1,8 --seeds 3
attn reproduce rank-heads --dimension 16 --length 4 --save-training runs
"""


@question()
def rank_heads(
    *, options: HeadRankOptions, training: SavedTrainingOptions, run: TrainingSeeds, how: RunContext
) -> Report:
    """Can many heads of low rank do what few heads of full rank do, at the same number of heads × rank?

    After "On the benefits of rank in attention layers": layers of H heads of rank r are trained here to pick the token
    nearest to a query on the sphere, at equal H · r.
    """
    from attncli.commands.reproduce.rank_heads.rank_head_metrics import RANK_HEAD_METRICS
    from attncli.commands.reproduce.rank_heads.run import prepare_head_rank_experiment
    from attncli.gates import refuse_gates_on_unmeasured_metrics

    refuse_gates_on_unmeasured_metrics(how.conditions, RANK_HEAD_METRICS)
    study = prepare_head_rank_experiment(options, training, run)
    from attncli.models.loading.isolate_global_state import isolate_run_in_process

    isolate_run_in_process()
    return how.run_measurement(study)
