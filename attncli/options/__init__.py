"""Options, each declared once for Python and the command line: name, type, default, one sentence.

value_completion       complete the beginning of a value in a shell
run_and_output         seeds, outputs
model_and_input        which model, how it is loaded, its input
synthetic_network      synthetic networks, variants
head_selection         which layers and heads
report_row_selection   which rows of a saved report are shown
pattern_approximation  patterns, methods, precision
sweep_ranges           the grammar of ranges: `tokens=16:1024`

    >>> from attncli.options.sweep_ranges import parse_size_range
    >>> parse_size_range("--sweep", "tokens", "16:128", int)
    [16, 32, 64, 128]
"""
