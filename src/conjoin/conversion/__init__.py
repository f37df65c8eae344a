"""From a dependency network to a Markov network, in closed form (the paper's Sections 4 and 5)."""
