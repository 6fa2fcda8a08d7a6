"""`attn sweep`: one number over many models.

swept_models       which models, and where their reports are saved
resumable_runs     the runs, on an engine
command            plan, run and report a sweep
options            which models, on which engine
report             one metric over many models, such as the checkpoints of a training run: a table and a trend
sweep_in_terminal  `attn sweep`

    >>> from attncli.commands.utilities.sweep.swept_models import natural_sort_key
    >>> sorted(["step1000", "step64"], key=natural_sort_key)
    ['step64', 'step1000']
"""
