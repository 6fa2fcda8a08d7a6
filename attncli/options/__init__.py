"""Options, each declared once for Python and the command line: name, type, default, one sentence.

completion   complete the beginning of a value in a shell
shared       seeds, outputs
model        which model, how it is loaded, its input
network      synthetic networks, variants
heads        which layers and heads
report_rows  which rows of a saved report are shown
patterns     patterns, methods, precision
size_ranges  the grammar of ranges: `tokens=16:1024`

    >>> from attncli.options.size_ranges import parse_range
    >>> parse_range("--sweep", "tokens", "16:128", int)
    [16, 32, 64, 128]
"""
