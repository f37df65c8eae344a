"""The base classes of scikit-learn, or minimal replacements if it is not installed."""

from __future__ import annotations

import inspect
from typing import Any

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import check_array
except ImportError:
    check_array = None

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """An estimator is used before it is fitted."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters by name, as in scikit-learn's class of the same name."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
            """Return the parameters."""
            return {n: getattr(self, n) for n in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Any:
            """Set parameters."""
            for name, value in params.items():
                setattr(self, name, value)
            return self

        def __repr__(self) -> str:
            shown = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
            return f"{type(self).__name__}({shown})"

    class OneToOneFeatureMixin:  # type: ignore[no-redef]
        """An empty mixin."""

    class TransformerMixin:  # type: ignore[no-redef]
        """`fit_transform`."""

        def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: N803
            """Fit to data, then transform it."""
            return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


def checked_array(X: Any, *, least: int = 1) -> Any:  # noqa: N803
    """Return a 2-dimensional array; reject anything else, with the messages of scikit-learn."""
    import numpy as np

    from conjoin.errors import DataError

    if check_array is not None:
        return check_array(
            X, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=least,
            estimator="JointModel",
        )  # fmt: skip
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"a table needs 2 dimensions, rows and columns, not {array.ndim}")
    if len(array) < least or not array.shape[1]:
        raise DataError("the table has no rows or no columns")
    return array


__all__ = [
    "BaseEstimator", "NotFittedError", "OneToOneFeatureMixin", "TransformerMixin", "checked_array",
]  # fmt: skip
