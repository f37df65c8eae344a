"""Random trials that look for crashes, wrong numbers and lost files: ``python -m fuzz --help``."""
