"""Questions as functions: Python keywords in, a report out.

Nothing here prints, and every error is one of `attncli.errors`. A command is a wrapper of a
question. `attncli/__init__.py` looks a question up here when its name is accessed, so that
importing the package costs nothing.

build_python_signatures  declared options as Python has them: the types in a signature
keyword_help             a line of help for each
notebook_html            a report in a notebook
report_answer            a report with methods: check, save, to_pandas, plots in notebooks; finished reports, read back
questions                declares a question once, for Python and for the command line
public_functions         the function of a question with flat keywords
baselines                options of a baseline: of `attn check`, of `report.check`, of a check of `attn ci`
reproduce                the papers' small training experiments: `attn.reproduce.circle(width=32)`

    >>> import attncli as attn
    >>> report = attn.rank_collapse(layers=6, seeds=1, variants="SAN")
    >>> report.check("log10_residual[SAN, layer=-1] < -3").passed
    False
"""
