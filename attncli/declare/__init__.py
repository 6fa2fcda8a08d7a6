"""How options and commands are declared, once for Python and for the command line.

dry_run                   where validation ends and a model is loaded
option_declarations       the declaration of an option, next to its type: what it says, for which kinds of SOURCE and with
                          which other options it is valid; and groups that several questions share
option_combination_rules  by the SOURCE of a run and its options, validate what is typed and drop settings that do not apply
option_value_conversion   convert values of any library to option values
command_table             the table of commands: each one's module, its question, and the kinds of SOURCE it takes
name_suggestions          what a mistyped option most likely means
replaced_options          options that have become commands: the old spelling is an error that names the new one

    >>> from attncli.declare.command_table import import_command_function
    >>> import_command_function("count-paths").__name__
    'count_paths'
"""
