"""Dependency, Markov and Bayesian networks, and the features they share."""
