"""The command `pydispatch`: a file for each subcommand."""
