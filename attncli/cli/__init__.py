"""The command line: parse → one question → gates → write.

command_tree                  command lines, read by the root command
typer_options                 from declared options to typer's parameters and values
parameter_names_as_options    parameters in sentences as the options that one types
shell_completion              completion where the shell splits words differently
report_writer                 the one place that writes
config                        options that are not on the command line
help                          help texts
command_execution             a question's command
app                           the typer app: its classes of commands, built from the table
run_in_distributed_processes  one command in several processes
main                          the entry, and the one place where errors become a sentence and an exit code

    >>> from attncli.cli.main import run_command_line
    >>> run_command_line(["count-paths", "--layers", "no number"])
    2
"""
