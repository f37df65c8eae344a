"""What scikit-learn expects of an estimator, without importing it.

Importing scikit-learn takes a second, and most uses of an estimator do not need it. Those that do (tags,
and frames as output) import it when they are asked for.
"""

from __future__ import annotations

import inspect
import sys
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

import numpy as np

from conjoin.errors import DataError, ModelError, did_you_mean

Self = TypeVar("Self", bound="Estimator")


class NotFittedError(ValueError, AttributeError):
    """An estimator is used before it is fitted; for programs that do not use scikit-learn."""


def not_fitted(message: str) -> Exception:
    """Return the error of an estimator that is not fitted, of scikit-learn's class if it is in use."""
    exceptions = sys.modules.get("sklearn.exceptions")
    error: Exception = getattr(exceptions, "NotFittedError", NotFittedError)(message)
    return error


class Estimator:
    """Parameters by name and transformed tables, as scikit-learn's tools expect them of any object.

    It is not a subclass of scikit-learn's `BaseEstimator`, so that it works without scikit-learn.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether to include the parameters of parameters, under names such as ``cpd__max_depth``.
        """
        found = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found |= {f"{name}__{key}": v for key, v in value.get_params().items()}
        return found

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name, and parameters of parameters by ``name__parameter``."""
        known = self.get_params(deep=False)
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"{name!r} is not a parameter of {type(self).__name__}. "
                    + did_you_mean(name, known)
                )
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def fit_transform(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        """Fit to data, then transform it."""
        fitted: Any = self
        return fitted.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of transformed tables: those of the table it was fitted to."""
        own: Any = self
        if not hasattr(self, "n_features_in_"):
            raise not_fitted(f"this {type(self).__name__} instance is not fitted yet")
        names = getattr(own, "feature_names_in_", None)
        if input_features is None:
            input_features = (
                [f"x{i}" for i in range(own.n_features_in_)] if names is None else names
            )
        elif names is not None and list(input_features) != list(names):
            raise ValueError("input_features is not equal to feature_names_in_")
        elif len(input_features) != own.n_features_in_:
            raise ValueError(f"input_features should have length {own.n_features_in_}")
        return np.asarray(input_features, dtype=object)

    def set_output(self: Self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: "default", "pandas" or "polars"; needs scikit-learn."""
        if transform is not None:
            # `sklearn.base.clone` copies an attribute of this name
            self._sklearn_output_config = {"transform": transform}
        return self

    def _in_chosen_container(self, X: Any, result: Any) -> Any:  # noqa: N803
        """Return a transformed table as `set_output` or scikit-learn's configuration asks for."""
        config: dict[str, str] = getattr(self, "_sklearn_output_config", {})
        if not config and "sklearn.base" not in sys.modules:
            return result
        return _container()(self, result).set_output(**config).transform(X)

    def set_fit_request(self: Self, *, sample_weight: bool | str | None) -> Self:
        """Choose whether weights reach `fit` through pipelines and searches (metadata routing)."""
        self._metadata_request = self.get_metadata_routing()  # as `sklearn.base.clone` copies it
        self._metadata_request.fit.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> Any:
        """Return which metadata the methods take, for scikit-learn's metadata routing."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if hasattr(self, "_metadata_request"):
            return deepcopy(self._metadata_request)
        request = MetadataRequest(owner=self)
        request.fit.add_request(param="sample_weight", alias=None)
        return request

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )


@cache
def _container() -> Any:
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
