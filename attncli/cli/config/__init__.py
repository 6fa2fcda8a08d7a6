"""Options that are not on the command line, and runs of attn by attn.

config_file        attn.toml, or [tool.attn] of a pyproject.toml
settings           what it and the environment set
defaults           which of that applies to a run
command_line_only  what counts on the command line alone
option_values      what a command line comes to
"""
