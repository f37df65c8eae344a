"""Readers and writers, one module per format; `files` chooses by the ending of the file name."""
