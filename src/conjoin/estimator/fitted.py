"""What a fitted `JointModel` has, and what all of its answers start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.mixed_table import MixedDomain, MixedTable
from conjoin.errors import ModelError
from conjoin.estimator.answers import Answers, states_array
from conjoin.estimator.base import Estimator, not_fitted
from conjoin.estimator.encoding import Encoding
from conjoin.inference.evidence import Evidence
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import MixedNetwork


class Fitted(Estimator):
    """The model and the encoding of a fitted `JointModel`."""

    target: Any
    random_state: Any
    model_: MarkovNetwork | MixedNetwork
    network_: DependencyNetwork | None
    encoding_: Encoding
    columns_: MixedDomain
    domain_: Domain
    n_features_in_: int
    n_rows_: int
    rows_: MixedTable | None
    seed_: int
    log_partition_: float | None
    bins_: MarkovNetwork | None

    def _settle(self, columns: MixedDomain, count: int, rows: MixedTable | None = None) -> None:
        """Set what follows from the columns."""
        self.columns_ = columns
        self.domain_ = columns.categories
        self.n_rows_, self.rows_ = count, rows
        self.resampled_: tuple[Any, ...] = ()
        self.n_features_in_ = len(self.encoding_.sources)
        labels = self.encoding_.labels
        if labels and all(isinstance(v, str) for v in labels.values()):
            self.feature_names_in_ = np.array(self.encoding_.sources, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.log_partition_ = self.bins_ = None

    def _kept_rows(self, what: str) -> MixedTable:
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
        names = set(self.columns_.names)
        return tuple(name for name in self.encoding_.sources if name not in names)

    def known(self, given: Mapping[Any, Any] | str | None) -> tuple[MarkovNetwork, Evidence]:
        """Return the network and what is known, for the functions that take any model."""
        return self._discrete("this question"), self.encoding_.evidence(given)

    def mixed_known(self, given: Mapping[Any, Any] | str | None) -> MixedKnown:
        """Return the mixed network with what is known, for the functions that take any model."""
        evidence = self._fitted().mixed_evidence(given)
        assert isinstance(self.model_, MixedNetwork)
        return MixedKnown.asked(self.model_, evidence)

    def coded(self, X: Any) -> MixedTable:  # noqa: N803
        """Return the rows of an array or frame as states and numbers, as the model has them."""
        return self._fitted().table(X)

    def _answers(self, X: Any, target: str | None = None) -> Answers:  # noqa: N803
        """Return answers for rows; columns that a frame lacks are missing, `target` is no evidence."""
        rows = self._fitted().table(X, subset=True)
        rows.warn_of_far_numbers(target)
        return self._of_rows(rows)

    def _of_rows(self, rows: MixedTable, seed: int | None = None) -> Answers:
        """Return answers for coded rows."""
        return Answers(self.model_, self.encoding_, rows, self.seed_ if seed is None else seed)

    def _discrete(self, what: str) -> MarkovNetwork:
        """Return the network, if it has states only."""
        self._fitted()
        if isinstance(self.model_, MixedNetwork):
            raise ModelError(
                f"{what} needs a network of states; fit with discretize='quantile:5', for example"
            )
        return self.model_

    @property
    def classes_(self) -> Any:
        """The states of the column `target`, as classifiers of scikit-learn have them."""
        if self.target is None or not hasattr(self, "model_"):
            raise AttributeError("only a fitted model with `target=` has classes")
        name = self._target(None)
        if self.encoding_.is_number(name):
            raise AttributeError(f"{name!r} is a number, which has no classes")
        return states_array(self.states(name))

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: a classifier or a regressor if there is a `target`."""
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        if self.target is None:
            return tags
        fitted = hasattr(self, "model_")
        if fitted and self.encoding_.is_number(self._target(None)):
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        else:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def states(self, target: Any = None) -> list[Any]:
        """Return the states of a column, in the order of the columns of `predict_proba`.

        Those of a number are ten bins with about the same number of training rows.
        """
        name = self._target(target)
        if name in self.columns_.numeric:
            return list(self.encoding_.bins[name].variable.states)
        return list(self.domain_[name].states)

    def _target(self, target: Any) -> str:
        encoding = self._fitted()
        if target is None:
            target = self.target
        return self.columns_.names[-1] if target is None else encoding.name(target)
