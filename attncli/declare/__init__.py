"""How options and commands are declared, once for Python and for the command line.

dry_run  where checking ends and the work begins
groups   options that several questions share, as dataclasses
options  what stands beside an option's type
values   values of any library as an option holds them
"""
