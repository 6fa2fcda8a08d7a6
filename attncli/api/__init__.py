"""The front door: every question as a function that takes Python's own things and returns a report.

Nothing here prints, and every error is one of `attncli.errors`. A command is a shell around a question.
`attncli/__init__.py` looks a question up here when its name is asked for, so that importing the package costs nothing.

keywords       declared options as Python has them: the types in a signature
keyword_help   a line of help for each
progress       a bar on a terminal
rehearsal      where checking ends and the work begins
opened         what is asked about, opened: networks, models, maps, patterns
answers        a report with what one does next: check, save, to_pandas, pictures in notebooks
question       declares a question once, for Python and for the command line
asked          from options to a study, one file for each kind of answer
swept          what `sweep` is made of: which models, their runs, and what decides the numbers of a run
rank_collapse  the questions, one file each
inspect_model
paths
approximate
generate
measured       maps that the caller has
compare
saved_reports  finished reports, read back
sweep          one question, asked of many models
"""
