"""Options that are not on the command line, and runs of attn by attn.

config_file                attn.toml, or [tool.attn] of a pyproject.toml
settings                   options set by it and by the environment, and which of them apply to a run
command_line_only_options  options that only the command line may set

    >>> import pathlib, tempfile
    >>> from attncli.cli.config.config_file import parse_config_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "attn.toml")
    ...     _ = path.write_text("[rank-collapse]\\nlayers = 24")
    ...     print(parse_config_file(path).values)
    {'rank-collapse': {'layers': 24}}
"""
