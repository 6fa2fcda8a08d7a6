"""Options that are not on the command line, and runs of attn by attn.

config_file        attn.toml, or [tool.attn] of a pyproject.toml
settings           options set by it and by the environment, and which of them apply to a run
command_line_only  options that only the command line may set
"""
