"""Readers and writers, one module a format; `files` chooses by the ending."""
