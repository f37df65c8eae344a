"""The paper's evaluation (Lowd, UAI 2012, Section 6): experiments, tables and figure."""
