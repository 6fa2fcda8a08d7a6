"""How options and commands are declared, once for Python and for the command line.

applies   with which kinds of SOURCE and which other options an option means something
dry_run   where checking ends and the work begins
groups    options that several questions share, as dataclasses
options   what stands beside an option's type
settle    which of the options that are typed or set hold in a run
subject   what a run is about, as far as it decides which options mean something
values    values of any library as an option holds them
commands  the table of commands: for each where its code is, the question it answers, and which kinds of SOURCE it takes
moved     options that have become commands of their own: whoever uses the old spelling is told the new one
"""
