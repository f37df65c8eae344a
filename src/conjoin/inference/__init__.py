"""Answers from a joint: exact and approximate engines with one interface."""
