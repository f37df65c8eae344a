"""The command line: one module per command, and the arguments that several of them share."""
