"""Variables with named states, and tables of them."""
