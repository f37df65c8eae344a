"""How well a network predicts a table: PLL and CMLL (the paper's Sections 2.2 and 6.2)."""
