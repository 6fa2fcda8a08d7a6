"""`attn reproduce circle`"""

from attncli.commands.reproduce.circle.options import CircleOptions
from attncli.commands.reproduce.options import TrainingOptions
from attncli.declare.option_declarations import declare_option
from attncli.options.run_and_output import RunOptions
from attncli.options.synthetic_network import (
    VariantNames,
    VariantSwitchOptions,
    choose_ablation_by_name_or_switch,
)
from attncli.options.value_completion import complete_metric
from attncli.python.questions import RunContext, question
from attncli.records import Report

EXAMPLES = """
attn reproduce circle                               # widths 32, 64 and 128, 5 seeds
attn reproduce circle --width 32 --variants SAN,transformer --seeds 2
attn reproduce circle --as-published --width 32 --save-training runs
attn reproduce circle --width 32 --save-training runs --watch-training 500
"""


@question()
def circle(
    *,
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=complete_metric,
        usual=True,
        help="Metrics to report (see `attn list metrics`). [default: log10_residual]",
    ),
    variants: VariantNames,
    switches: VariantSwitchOptions,
    options: CircleOptions,
    training: TrainingOptions,
    run: RunOptions,
    how: RunContext,
) -> Report:
    """Do two points become one, when a layer trained to move them along a circle is applied to its own output?

    After "Attention is not all you need: pure attention loses rank doubly exponentially with depth", section 4.2: for
    every width and seed one layer is trained to move two points along a circle, and then applied again and again. In
    which runs do the points become one, and at which step?
    """
    from attncli.commands.reproduce.circle.run import (
        collect_requested_and_gated_metrics,
        prepare_circle_training,
    )

    metrics = collect_requested_and_gated_metrics(metric, how.conditions)
    study = prepare_circle_training(
        options, training, list(choose_ablation_by_name_or_switch(variants, switches)), metrics, run
    )
    from attncli.models.loading.isolate_global_state import isolate_run_in_process

    isolate_run_in_process()
    return how.run_measurement(study)
