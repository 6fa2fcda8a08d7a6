"""What can be asked, each option once, for Python and the command line: its name, its type, its default, one sentence.

completion   what a shell may offer for the beginning of a value
shared       networks, variants, seeds, outputs
model        which model, how it is loaded, what it reads
heads        which layers and heads
row_options  what is shown of a saved report
patterns     patterns, methods, precision
size_ranges  the grammar of ranges: `tokens=16:1024`
"""
