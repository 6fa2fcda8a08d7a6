"""How options and commands are declared, once for Python and for the command line.

option_applicability      the kinds of SOURCE and the other options with which an option is valid
dry_run                   where validation ends and a model is loaded
option_declarations       the declaration of an option, next to its type, and groups that several questions share
option_combination_rules  validate typed options and drop settings that do not apply
source_kinds              the kind of source of a run, as far as it decides which options are valid
option_value_conversion   convert values of any library to option values
commands                  the table of commands: each one's module, its question, and the kinds of SOURCE it takes
name_suggestions          what a mistyped option most likely means
replaced_options          options that have become commands: the old spelling is an error that names the new one

    >>> from attncli.declare.commands import import_function
    >>> import_function("count-paths").__name__
    'count_paths'
"""
