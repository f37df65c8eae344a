"""The paper's Section 6, run again from end to end, beside its published figures."""
