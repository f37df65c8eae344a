"""Compiled loops. They know only arrays; importing one of these modules imports numba."""
