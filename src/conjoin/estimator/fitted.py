"""What a fitted `JointModel` has, and what all of its answers start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import ModelError
from conjoin.estimator.answers import Answers, states_array
from conjoin.estimator.encoding import Encoding
from conjoin.estimator.scikit_learn import Estimator, not_fitted
from conjoin.inference.evidence import Evidence, Given
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.joint import Joint


class Fitted(Estimator):
    """The model and the encoding of a fitted `JointModel`."""

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
        from sklearn.utils import ClassifierTags, RegressorTags

        tags, name = super().__sklearn_tags__(), self.target
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
