"""Questions as functions: keywords of Python in, a report out.

Nothing here prints, and every error is one of `attncli.errors`. A command is a shell around a question.
`attncli/__init__.py` looks a question up here when its name is asked for, so that importing the package costs nothing.

keywords       declared options as Python has them: the types in a signature
keyword_help   a line of help for each
progress       a bar on a terminal
answers        a report with what one does next: check, save, to_pandas, pictures in notebooks
question       declares a question once, for Python and for the command line
saved_reports  finished reports, read back
baselines      what a report is held against: options of `attn check`, keywords of `report.check`, lines of a check of `attn ci`
reproduce      the papers' small training experiments: `attn.reproduce.circle(width=32)`
"""
