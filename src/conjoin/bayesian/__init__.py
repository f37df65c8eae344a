"""Bayesian networks: the tree of a table, a search over orders, and `to_bayesian_network`."""
