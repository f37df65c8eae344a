"""Drawing from networks: Gibbs chains and what is read off them (the paper's Sections 2.1 and 3)."""
