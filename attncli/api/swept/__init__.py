"""Many models: what `sweep` is made of.

fingerprint  all that decides a run's numbers, as one digest
sweep_items  which models, and where their reports lie
sweep_runs   the runs, on an engine
"""
