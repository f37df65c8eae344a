"""What scikit-learn expects of arrays, errors and random states, without importing it.

Importing scikit-learn takes a second, and most uses of an estimator do not need it. Those that do (tags,
and frames as output) import it when they are asked for.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np

from conjoin.errors import DataError, ModelError


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted; for programs that do not use scikit-learn."""


def not_fitted(message: str) -> Exception:
    """Return the error of an estimator that is not fitted, of scikit-learn's class if it is in use."""
    exceptions = sys.modules.get("sklearn.exceptions")
    error: Exception = getattr(exceptions, "NotFittedError", NotFittedError)(message)
    return error


@cache
def container() -> Any:
    """Return a transformer of scikit-learn's that hands on a result, in the container it is told."""
    from sklearn.base import BaseEstimator, TransformerMixin

    class Container(TransformerMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self, source: Any, result: Any) -> None:
            self.source, self.result = source, result

        def transform(self, X: Any) -> Any:  # noqa: ARG002, N803
            return self.result

        def get_feature_names_out(self, input_features: Any = None) -> Any:
            return self.source.get_feature_names_out(input_features)

    return Container


def checked_array(X: Any) -> Any:  # noqa: N803
    """Return a 2-dimensional array; reject anything else, with the words of scikit-learn."""
    if hasattr(X, "toarray"):
        raise TypeError("Sparse data was passed, but dense data is required: use X.toarray()")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: a column has complex numbers")
    if array.ndim != 2:
        raise DataError(
            f"a table needs 2 dimensions, rows and columns: Expected 2D array, got {array.ndim}D array "
            "instead. Reshape your data with array.reshape(-1, 1) if it is one column, or with "
            "array.reshape(1, -1) if it is one row."
        )
    for count, what in zip(array.shape, ("sample", "feature"), strict=True):
        if not count:
            raise DataError(
                f"Found array with 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required "
                "by JointModel."
            )
    if array.dtype.kind == "f" and np.isinf(array).any():
        raise DataError("Input X contains infinity.")
    return array


def integer_seed(random_state: Any) -> int:
    """Return an integer seed.

    `random_state`: an integer is its own seed. A generator is advanced, so that the next seed is
    another one. None gives a fresh seed each time.
    """
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ModelError(
        "random_state must be a non-negative integer, a numpy Generator or RandomState, or None, "
        f"not {random_state!r}"
    )
