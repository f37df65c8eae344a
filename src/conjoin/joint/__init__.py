"""One joint distribution: thinning, and weights by pseudo-likelihood or likelihood (Section 2.2)."""
