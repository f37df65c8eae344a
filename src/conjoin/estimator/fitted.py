"""What a fitted `JointModel` has, and what all of its answers start from."""

from __future__ import annotations

import inspect
import sys
from copy import deepcopy
from typing import Any, Self

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import ModelError, did_you_mean
from conjoin.estimator.answers import Answers, states_array
from conjoin.estimator.encoding import Encoding
from conjoin.estimator.scikit_learn import container, not_fitted
from conjoin.inference.evidence import Evidence, Given
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.joint import Joint


class Fitted:
    """The model and the encoding of a fitted `JointModel`, and what scikit-learn's tools expect.

    It is not a subclass of scikit-learn's `BaseEstimator`, so that it works without scikit-learn.
    """

    target: Any
    kinds: Any
    random_state: Any
    model_: Joint
    network_: DependencyNetwork | None
    encoding_: Encoding
    domain_: Domain
    n_features_in_: int
    n_rows_: int
    rows_: Table | None
    seed_: int
    log_partition_: float | None

    def _settle(self, count: int, rows: Table | None = None) -> None:
        """Set what follows from the columns."""
        self.domain_ = self.encoding_.domain
        self.n_rows_, self.rows_ = count, rows
        self.resampled_: tuple[Any, ...] = ()
        self.n_features_in_ = len(self.encoding_.sources)
        labels = self.encoding_.labels
        if labels and all(isinstance(v, str) for v in labels.values()):
            self.feature_names_in_ = np.array(self.encoding_.sources, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.log_partition_ = None

    def _kept_rows(self, what: str) -> Table:
        if self.rows_ is None:
            raise ModelError(f"a model that was loaded from a file has no rows, and cannot {what}")
        return self.rows_

    def _fitted(self) -> Encoding:
        if not hasattr(self, "model_"):
            raise not_fitted(
                f"this {type(self).__name__} instance is not fitted yet; call 'fit' first"
            )
        return self.encoding_

    @property
    def left_out_(self) -> tuple[str, ...]:
        """The columns of the training table that are not in the model."""
        names = set(self.domain_.names)
        return tuple(name for name in self.encoding_.sources if name not in names)

    def _known(self, given: Given) -> tuple[Joint, Evidence]:
        """Return the joint and the evidence; functions that take any model look for this method."""
        encoding = self._fitted()
        return self.model_, encoding.evidence(given)

    def _answers(self, X: Any, target: str | None = None) -> Answers:  # noqa: N803
        """Return answers for rows; columns that a frame lacks are missing, `target` is no evidence."""
        rows = self._fitted().table(X, subset=True)
        rows.warn_of_far_numbers(target)
        return self._of_rows(rows)

    def _of_rows(self, rows: Table, seed: int | None = None) -> Answers:
        """Return answers for coded rows."""
        return Answers(self.model_, rows, self.seed_ if seed is None else seed)

    @property
    def classes_(self) -> Any:
        """The states of the target, as classifiers of scikit-learn have them."""
        if self.target_ is None or self.target_ in self.domain_.numeric:
            raise AttributeError("only a model whose target is a category has classes")
        return states_array(self.states())

    @property
    def target_(self) -> str | None:
        """The column that `predict` predicts by default; None without `target` and `y`."""
        return self._fitted().target

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn; before `fit`, targets not in `kinds` count as categories."""
        from sklearn.utils import (
            ClassifierTags,
            InputTags,
            RegressorTags,
            Tags,
            TargetTags,
            TransformerTags,
        )

        tags = Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )
        name = self.target
        number = (self.kinds or {}).get(name) in ("number", "date")
        if hasattr(self, "model_"):
            name, number = self.target_, self.target_ in self.domain_.numeric
        if name is None:
            return tags
        if number:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def states(self, target: Any = None) -> list[Any]:
        """Return the states of a column, in the order of the columns of `predict_proba`.

        Those of a number are its intervals and single values, as text.
        """
        name = self._target(target)
        return list(self.domain_[name].values)

    def _target(self, target: Any) -> str:
        encoding = self._fitted()
        if target is None:
            return encoding.target or self.domain_.names[-1]
        return encoding.name(target)

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

    def set_params(self, **params: Any) -> Self:
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
        estimator: Any = self
        return estimator.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of transformed tables: those of the table it was fitted to."""
        self._fitted()
        names = getattr(self, "feature_names_in_", None)
        if input_features is None:
            input_features = names
            if names is None:
                input_features = [f"x{i}" for i in range(self.n_features_in_)]
        elif names is not None and list(input_features) != list(names):
            raise ValueError("input_features is not equal to feature_names_in_")
        elif len(input_features) != self.n_features_in_:
            raise ValueError(f"input_features should have length {self.n_features_in_}")
        return np.asarray(input_features, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
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
        return container()(self, result).set_output(**config).transform(X)

    def set_fit_request(self, *, sample_weight: bool | str | None) -> Self:
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
