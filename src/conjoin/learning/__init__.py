"""From a table to a dependency network: one CPD per variable (the paper's Sections 3 and 6.2)."""
