"""The scikit-learn estimator: a joint distribution of the columns of a table."""
