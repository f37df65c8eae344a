"""Dependency networks, Markov networks, Bayesian networks, and the features they share."""
