"""What can be asked, each option once, for Python and the command line: its name, its type, its default, one sentence.

completion       what a shell may offer for the beginning of a value
declared         what stands beside an option's type
values           values of any library as an option holds them
groups           options that several questions share, as dataclasses
shared           networks, variants, seeds, outputs
model_options    which model, how it is loaded, what it reads
head_options     which layers and heads
row_options      what is shown of a saved report
path_options     what is asked of paths
pattern_options  patterns, methods, precision
task_options     trainings
sweep_options    which models, on which engine
size_ranges      the grammar of ranges: `tokens=16:1024`
"""
