"""`JointModel`: one model of a whole table, which answers any question about it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conjoin.data.labels import shown
from conjoin.data.rule_text import rules_of
from conjoin.data.table import Table
from conjoin.data.telling_edges import with_telling_edges
from conjoin.errors import ConvergenceWarning, ModelError, names_lack_of_memory
from conjoin.estimator.encoding import Encoding, values_of, weighted_rows
from conjoin.estimator.pictures import Pictures
from conjoin.estimator.row_answers import RowAnswers
from conjoin.estimator.scikit_learn import integer_seed
from conjoin.inference.evidence import Given
from conjoin.models.left_out import names_left_out


@dataclass(eq=False, repr=False)
class JointModel(RowAnswers, Pictures):
    """A joint distribution of all columns of a table.

    Parameters
    ----------
    cpd : {'auto', 'hybrid', 'tree', 'logistic', 'mixed', 'boosted'}, or a classifier
        How the conditional of each column is learned (see `learn_conditionals`); "auto" is "mixed":
        hybrids for columns of two states, trees for all others.
    kappa, penalty, min_leaf : float, optional
        Settings of `learn_conditionals`; those that are not given are chosen on held-out rows.
    refine : bool
        Whether to make the converted network thin enough for exact inference and to maximize the
        likelihood of its weights, as long as that improves the score of held-out rows (see `refine`).
        Without it, and for fewer than 50 rows, the network is the closed-form conversion of the
        conditionals.
    effort : {'quick', 'default', 'thorough'}
        How much work refining does; "quick" learns no hidden column.
    target : str, optional
        The column that `predict` predicts and `score` compares by default; it may be part of X or
        given as y. Without it, y is the target, and if there is no y, `predict` predicts the last column.
    unseen : {'missing', 'error'}
        Whether a value of X that the training table did not have counts as missing or is an error.
    missing : {'auto', 'ignore'}
        What empty cells mean. With "auto", being absent is a state of a column if other columns tell
        which of its cells are empty: the date of a contract's end, say. `impute` leaves such cells empty,
        `sample` draws them, and conditions may ask for them (``ended is absent``). With "ignore", all
        values that are missing got lost, whatever the rest of the row says.
    required, forbidden : sequence of pairs of columns, optional
        Interactions: the conditionals of both columns of a pair always, or never, depend on the other
        one. With forbidden pairs, the network is the closed-form conversion, because refining may link
        any two columns.
    include, exclude : column names, optional
        Columns to keep although they look like identifiers or free text (a different value in almost
        every row), and columns to leave out. Columns without any value are left out in any case.
    kinds : mapping, optional
        {column: 'category', 'number' or 'date'} for columns that are not what they look like.
    rules : 'auto', None, or sequence of str
        Relations between columns that `sample` and `impute` keep: ``"low <= high"``,
        ``"total = price * quantity"``, ``"total = net + tax"``, ``"product -> category"``. "auto", also
        as one of several, finds those that hold in the table with at most 0.5% exceptions. They are
        `model_.rules` afterwards.
    random_state : int, numpy Generator, RandomState or None
        The source of randomness. With an integer, the same call gives the same result. With None,
        every `fit` and every `impute` with `draws` is different; a generator is advanced by each of them.
        Estimates of a fitted model (`predict_proba`, say) do not change between calls.
    n_jobs : int, optional
        The number of CPDs to learn at a time.

    Attributes
    ----------
    model_ : Joint
        The joint distribution.
    network_ : DependencyNetwork
        The conditionals that it was converted from.
    domain_ : Domain
        The columns and their states.
    target_, classes_ : str or None, array
        The column that is predicted by default, and its states if it is a category.
    n_features_in_ : int
        The number of columns of the training table, including those that were left out.
    feature_names_in_ : array of str
        Their names, if they have names.

    Notes
    -----
    The order of named columns does not change what is learned: columns are sorted by name before
    learning, and the networks are put into the order of the table afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rain = rng.random(500) < 0.3
    >>> wet = np.where(rng.random(500) < 0.9, rain, ~rain)
    >>> X = np.where(np.stack([rain, wet], axis=1), "yes", "no").astype(object)
    >>> model = JointModel().fit(X)
    >>> model.predict(np.array([["yes", None]], dtype=object), target="v1")
    array(['yes'], dtype=object)
    >>> model.impute(np.array([[None, "no"]], dtype=object))
    array([['no', 'no']], dtype=object)
    """

    cpd: Any = "auto"
    _: KW_ONLY
    kappa: float | None = None
    penalty: float | None = None
    min_leaf: float | None = None
    refine: bool = True
    effort: str = "default"
    target: Any = None
    unseen: str = "missing"
    missing: str = "auto"
    required: Any = None
    forbidden: Any = None
    include: Any = ()
    exclude: Any = ()
    kinds: Any = None
    rules: Any = "auto"
    random_state: Any = 0
    n_jobs: int | None = None

    @names_lack_of_memory
    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> JointModel:
        """Learn the joint distribution of the columns of a table.

        Parameters
        ----------
        X : array or frame
            The rows; values may be missing.
        y : array or series, optional
            The target. It is one of the columns of the model, called `target`, or else as the series is
            called, or else "y" (with "_" appended if X has another column of this name).
        sample_weight : array of float, optional
            One non-negative weight per row. A row of weight 3 counts like three rows.
        """
        self.seed_ = integer_seed(self.random_state)
        encoding, table = Encoding.of(
            X, self.unseen, y, self.target, sample_weight,
            self.missing, include=self.include, exclude=self.exclude, kinds=self.kinds,
        )  # fmt: skip
        self.encoding_ = encoding
        self._learn(table)
        return self

    def _learn(self, table: Table) -> None:
        """Learn from a coded table."""
        from conjoin.joint.joint_learning import learn_joint

        rules = rules_of(table, self.rules)
        self.network_, joint = learn_joint(
            table, self.cpd, kappa=self.kappa, penalty=self.penalty,
            min_leaf=self.min_leaf, effort=self.effort,
            required=self._parents(self.required), forbidden=self._parents(self.forbidden),
            closed_form=not self.refine or self.forbidden is not None,
            random_state=self.seed_, n_jobs=self.n_jobs,
        )  # fmt: skip
        self.model_ = joint.with_rules(rules)
        self._settle(len(table), table)

    def _parents(self, pairs: Any) -> dict[str, list[str]] | None:
        """Return pairs of columns as {column: others}, in both directions."""
        if pairs is None:
            return None
        found: dict[str, list[str]] = {}
        for pair in pairs:
            names = [self.encoding_.name(label) for label in pair] if len(pair) == 2 else []
            if len(set(names)) != 2:
                raise ModelError(f"an interaction is a pair of two columns, not {pair!r}")
            for a, b in (names, names[::-1]):
                found.setdefault(a, []).append(b)
        return found

    @names_lack_of_memory
    def update(self, X: Any, sample_weight: npt.ArrayLike | None = None) -> JointModel:  # noqa: N803
        """Learn again from the rows of `fit` and of earlier updates together with new ones.

        Columns and categories stay the same: a value that is not a state counts as `unseen` says.
        The result is that of all rows at once. A model that was loaded from a file has no rows, and
        cannot be updated.

        Parameters
        ----------
        X : array or frame
            New rows. A frame may lack columns.
        sample_weight : array of float, optional
            Their weights.
        """
        self._fitted()
        rows = self.encoding_.table(X, subset=True)
        at, weights = weighted_rows(len(rows), sample_weight, rows.weights)
        if at is not None:
            rows = rows.select(at).weighted(weights)
        table = self._kept_rows("be updated").with_rows(rows).with_states()
        table = with_telling_edges(table)
        self.encoding_ = replace(self.encoding_, domain=table.domain)
        self._learn(table)
        return self

    @names_lack_of_memory
    def marginals(self, given: Given = None, **options: Any) -> Any:
        """Return the distribution of each column given what is known (see `conjoin.marginals`).

        With columns of numbers it is a mapping of columns to {state: probability} or to a
        `NumberDistribution`.
        """
        self._fitted()
        from conjoin.inference.engines import marginals

        return marginals(self, given, **options)

    @names_lack_of_memory
    def most_probable(self, given: Given = None, **options: Any) -> Any:
        """Return the most probable row (see `conjoin.most_probable`).

        A number has the median of its most probable interval.
        """
        self._fitted()
        from conjoin.inference.engines import most_probable

        return most_probable(self, given, **options)

    @names_lack_of_memory
    @names_left_out
    def sample(self, n: int = 1, given: Given = None, *, random_state: Any = None) -> Any:
        """Draw rows, as a table of the kind that the model was fitted to.

        Parameters
        ----------
        n : int
            The number of rows.
        given : mapping or str, optional
            {column: value or condition} that all rows agree with, or text such as
            "age > 40, city=Austin".
        random_state : int, numpy Generator, RandomState or None
            With None, every call draws other rows. A generator is advanced.
        """
        encoding = self._fitted()
        if not isinstance(n, int | np.integer) or n < 0:
            raise ModelError(f"n must be a non-negative integer, not {n!r}")
        from conjoin.inference.gibbs import MAX_R_HAT
        from conjoin.inference.plan import TooLarge
        from conjoin.inference.sampling import sample, sampling_method, table_diagnostics

        seed, known = integer_seed(random_state), encoding.evidence(given)
        r_hat, drawn = None, None
        if sampling_method(self.model_, known) == "exact":
            with suppress(TooLarge):
                drawn = sample(self.model_, n, known, random_state=seed)
        if drawn is None:
            how = {"method": "gibbs", "sweeps_per_row": 10}
            drawn = sample(self.model_, n, known, random_state=seed, **how)  # type: ignore[arg-type]
            r_hat, _ = table_diagnostics(drawn, 4)
        if r_hat is not None and r_hat > MAX_R_HAT:
            warnings.warn(
                f"the model is too dense for exact sampling, and the Gibbs chains that drew these "
                f"rows disagree (R-hat {r_hat:.2f}): do not trust the frequencies of the states",
                ConvergenceWarning,
                stacklevel=2,
            )
        if encoding.empty is None and encoding.dtype is None:
            return drawn
        return encoding.new({name: values_of(drawn, name) for name in drawn.names}, n)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a .conjoin file, without the training rows.

        `JointModel.load` reads all of it, and `conjoin.load` its network. Nothing in the file is
        executed when it is opened.
        """
        self._fitted()
        from conjoin.estimator.files import save_estimator

        save_estimator(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> JointModel:
        """Read a model that `save` wrote."""
        from conjoin.estimator.files import load_estimator

        own: JointModel = load_estimator(cls, Path(path))
        return own

    def __repr__(self) -> str:
        if not hasattr(self, "model_"):
            return super().__repr__()
        names = self.domain_.names
        columns = ", ".join(map(shown, names[:6])) + (", ..." if len(names) > 6 else "")
        start = f"<JointModel of {len(names)} columns ({columns}): "
        hidden = self.model_.domain.hidden
        size = f"{len(self.model_.features):,} features"
        if hidden.any():
            size = f"{int(self.model_.domain.cards[hidden].prod()):,} hidden states"
        learned = {} if self.network_ is None else self.network_.provenance.get("learned", {})
        if "cpd" in learned:
            size += f", {learned['cpd']} CPDs"
        return f"{start}{size}, learned from {self.n_rows_:,} rows>"
