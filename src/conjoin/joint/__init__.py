"""Learning the weights of a Markov network by pseudo-likelihood (the paper's Section 2.2)."""
