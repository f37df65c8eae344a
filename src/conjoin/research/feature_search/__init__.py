"""`learn_features`: Markov networks by a search for features, as an alternative to conditionals."""
