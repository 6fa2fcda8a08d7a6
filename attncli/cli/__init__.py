"""The command line: parse → one question → gates → write.

main           the entry, and the one place where errors become a sentence and an exit code
arguments      command lines before typer reads them
app            the commands and their order
root           the whole of it, for those who run other command lines
help           help texts
typer_options  from declared options to what typer takes
spelling       parameters in sentences as the options that one types
answering      a question's command
completing     completion where shells have words of their own
catalogue      what there is, as records
writer         the one place that writes
together       one command in several processes
commands       one file each
config         options that are not on the command line
"""
