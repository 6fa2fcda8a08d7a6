"""The front door: every question as a function that takes Python's own things and returns a report.

Nothing here prints, and every error is one of `attncli.errors`. `attncli/__init__.py` looks names up here when they
are asked for, so that importing the package costs nothing; a command is a shell around one of these.

answers        a report with what one does next: check, save, to_pandas, pictures in notebooks
progress       a bar on a terminal
question       one declaration for Python and for the command line
rehearsal      where the work begins
opened         what is asked about, opened: networks, models, maps, patterns
asked          from options to a study, one file for each kind of answer
swept          many models: which ones, their runs, and what decides these
rank_collapse  the questions, one file each
inspect_model
paths
approximate
generate
measured       maps that the caller has
compare
saved_reports  finished reports, read back
sweep          many models: the question of `attn sweep`
"""
