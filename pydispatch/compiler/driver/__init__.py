"""A source and options → an artifact: the order of the phases, and plugins."""
