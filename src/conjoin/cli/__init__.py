"""The command line: one module per command, whose docstring is its help."""
