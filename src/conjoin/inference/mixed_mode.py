"""The most probable row of a mixed network, by ascent.

The hidden states are summed out, so there is no quick way to the best row. From several starts, one
column after another gets its most probable value given all others, until nothing changes: no single
change then makes the row more probable. Numbers count by their density per step, so that a recorded value
competes with an atom. Another row, which differs in several columns, may still be more probable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from conjoin.data.arrays import FloatArray, IntArray
from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table, code_dtype
from conjoin.inference.evidence import states_and_likelihoods
from conjoin.inference.mixed import MixedAnswers
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.inference.number_evidence import log_weights
from conjoin.inference.results import Assignment, Run
from conjoin.models.mixed import MixedNetwork

STARTS = 24
"""Number of drawn rows from which the search starts; one more has the mode of each column."""

MAX_SWEEPS = 50
"""Maximum number of times that each column is changed."""

BETTER, BETTER_SWEEP = 1e-9, 1e-2
"""How much a change, and the changes of all columns together, must increase the log-probability to go on.
Numbers that nearly determine each other climb in tiny steps."""

Weights = Mapping[str, Callable[[FloatArray], FloatArray]]
"""The log-likelihood of values (of categories: of states) by column, where evidence has one."""


def most_probable(known: MixedKnown, *, starts: int = STARTS) -> Assignment:
    """Return the most probable row found, given evidence; its score is a log-density.

    Parameters
    ----------
    known : MixedKnown
        The model and the evidence.
    starts : int
        Number of drawn rows from which the search starts.
    """
    model, domain = known.model, known.model.domain
    free = [name for name in sorted(domain.names) if name not in known.certain]
    rows = known.sample(starts, 0).with_rows(_modes(known))
    rows = MixedTable(domain, rows.categories, rows.numbers)
    weights = _weights(known)
    every = np.arange(len(rows))
    search = _Search(model, rows, dict.fromkeys(free, every), weights)
    scores = search.run()
    best, table = int(scores.argmax()), search.table
    states = {}
    for name in domain.names:
        if name in domain.numeric:
            states[name] = domain.scale(name).value(float(table.column(name)[best]))
        else:
            at = domain.categories.index(name)
            states[name] = domain.categories[name].states[int(table.categories.codes[best, at])]
    if not free:
        run = Run("exact", exact=True)
    else:
        agree = int((scores > scores[best] - 1e-6).sum())
        note = f"the best of {len(scores)} searches, {agree} of which found it"
        run = Run("ascent", note=f"{note}; another row may be more probable")
    per_unit = sum(np.log(mapped.step) for mapped in model.maps)
    return Assignment(states, float(scores[best] - per_unit), run)


def _modes(known: MixedKnown) -> MixedTable:
    """Return the row of the most probable value of each column."""
    domain = known.model.domain
    codes = np.zeros((1, len(domain.categories)), code_dtype(domain.categories.cards))
    numbers = np.zeros((1, len(domain.numeric)))
    for i, name in enumerate(domain.categories.names):
        codes[0, i] = known.category(name).argmax()
    for i, name in enumerate(domain.numeric):
        value = known.certain.get(name)
        numbers[0, i] = domain.scale(name).number(
            known.number(name).mode() if value is None else value
        )
    return MixedTable(domain, Table.adopt(domain.categories, codes), numbers)


def _weights(known: MixedKnown) -> Weights:
    """Return the log-likelihoods of the columns of which something but not the value is known."""
    found: dict[str, Callable[[FloatArray], FloatArray]] = {}
    for name, value in known.given.items():
        if name in known.certain:
            continue
        if name in known.pieces:
            fitted = known.fitted.get(name, np.zeros(1))

            def of_numbers(
                x: FloatArray, name: str = name, fitted: FloatArray = fitted
            ) -> FloatArray:
                return log_weights(known.pieces[name], x, fitted)

            found[name] = of_numbers
            continue
        variable = known.model.domain.categories[name]
        weights, new, _ = states_and_likelihoods(variable, value, None)
        with np.errstate(divide="ignore"):
            logs = np.log(weights)
        if new is not None:
            logs = logs + new.spread(known.fitted[name])

        def of_states(codes: FloatArray, logs: FloatArray = logs) -> FloatArray:
            return np.asarray(logs[codes.astype(np.int64)])

        found[name] = of_states
    return found


def jointly(model: MixedNetwork, rows: MixedTable, filled: MixedTable, numbers: bool) -> MixedTable:
    """Return filled rows in which the missing values are the most probable ones together.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    rows, filled : MixedTable
        Rows with missing values, and the same rows with each filled in on its own.
    numbers : bool
        Whether missing numbers are chosen, too; otherwise they are summed out, and stay as filled in.
    """
    chosen = {n for n in rows.names if numbers or n not in rows.domain.numeric}
    missing = np.array([name in chosen for name in rows.names]) & rows.holes
    at = np.flatnonzero(missing.sum(axis=1) > 1)
    if not len(at):
        return filled
    start = filled.select(at)
    if not numbers:
        start = MixedTable(start.domain, start.categories, rows.numbers[at])
    listed = zip(rows.names, missing[at].T, strict=True)
    free = {name: np.flatnonzero(hole) for name, hole in listed if hole.any()}
    search = _Search(model, start, dict(sorted(free.items())), {})
    search.run()
    codes, values = filled.categories.codes.copy(), filled.numbers.copy()
    codes[at] = search.codes
    if numbers:
        values[at] = search.numbers
    table = Table.adopt(filled.categories.domain, codes, filled.categories.weights)
    return MixedTable(filled.domain, table, values)


class _Search:
    """Ascent from several rows at once.

    Parameters
    ----------
    model : MixedNetwork
        The model.
    rows : MixedTable
        The starts.
    free : mapping
        {column: the rows that may change there}.
    weights : mapping
        The evidence.
    """

    def __init__(
        self, model: MixedNetwork, rows: MixedTable, free: Mapping[str, IntArray], weights: Weights
    ) -> None:
        self.model, self.domain, self.free, self.weights = model, rows.domain, free, weights
        self.codes, self.numbers = rows.categories.codes.copy(), rows.numbers.copy()

    @property
    def table(self) -> MixedTable:
        """The rows as they are now."""
        return self._rows(np.arange(len(self.codes)))

    def _rows(self, at: IntArray) -> MixedTable:
        table = Table.adopt(self.domain.categories, self.codes[at])
        return MixedTable(self.domain, table, self.numbers[at])

    def scores(self, at: IntArray) -> FloatArray:
        """Return the log-probability of some rows, per step of numbers, times their likelihoods."""
        total = MixedAnswers(self.model, self._rows(at)).log_likelihood()
        for name, weight in self.weights.items():
            total = total + weight(self._column(name, at))
        return total

    def _column(self, name: str, at: IntArray) -> FloatArray:
        if name in self.domain.numeric:
            return self.numbers[at, self.domain.numeric.index(name)]
        return self.codes[at, self.domain.categories.index(name)].astype(np.float64)

    def run(self) -> FloatArray:
        """Change the rows until no single change improves them; return their scores."""
        active = np.arange(len(self.codes))
        scores = self.scores(active)
        for _ in range(MAX_SWEEPS):
            for name, may in self.free.items():
                at = np.intersect1d(active, may)
                if len(at):
                    self._change(name, at)
            after = self.scores(active)
            better = after > scores[active] + BETTER_SWEEP
            scores[active] = np.maximum(after, scores[active])
            active = active[better]
            if not len(active):
                break
        return scores

    def _change(self, name: str, at: IntArray) -> None:
        """Give a column of some rows its most probable value given all others."""
        answers, weight = MixedAnswers(self.model, self._rows(at)), self.weights.get(name)
        if name in self.domain.numeric:
            column = self.domain.numeric.index(name)
            found = answers.number(name).mode(weight, self.numbers[at, column])
            self.numbers[at, column] = found
            return
        with np.errstate(divide="ignore"):
            logs = np.log(answers.category(name))
        states = np.arange(logs.shape[1], dtype=np.float64)
        if weight is not None:
            logs = logs + weight(states)
        column = self.domain.categories.index(name)
        now = self.codes[at, column].astype(np.int64)
        best = logs.argmax(axis=1)
        rows = np.arange(len(at))
        change = logs[rows, best] > logs[rows, now] + BETTER
        self.codes[at[change], column] = best[change]
