"""Questions to a mixed network: distributions, probabilities of events, what to ask next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.labels import shown
from conjoin.errors import ModelError
from conjoin.inference.conditions import Condition, Range
from conjoin.inference.mixed_evidence import MixedKnown, read_given
from conjoin.inference.number_distribution import NumberDistribution
from conjoin.inference.questions import Questions, named, question_of
from conjoin.inference.results import Probability, Run
from conjoin.models.mixed import MixedNetwork

BINS = 10
"""Number of ranges of equal probability into which a number is cut, to say what it tells."""

TARGET_BINS = 8
"""The same for a number that is to be found out."""


def mixed_known(model: Any, given: Any = None) -> MixedKnown | None:
    """Return a mixed network with evidence; None for any other model."""
    if isinstance(model, MixedNetwork):
        return MixedKnown(model, given)
    if isinstance(getattr(model, "model_", None), MixedNetwork):
        found: MixedKnown = model.mixed_known(given)
        return found
    return None


class MixedMarginals(Mapping[str, Any]):
    """The distribution of each column: {state: probability}, or a `NumberDistribution`.

    Attributes
    ----------
    run : Run
        How they were found.
    """

    def __init__(self, found: dict[str, Any], run: Run) -> None:
        self._found, self.run = found, run

    def __getitem__(self, name: str) -> Any:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        width = max((len(shown(name)) for name in self), default=0)
        lines = []
        for name, p in self._found.items():
            if isinstance(p, NumberDistribution):
                low, high = p.interval(0.9)
                mean = p.scale.short(p.mean())
                text = f"mean {mean}, 90% between {p.scale.text(p.scale.number(low))} and "
                text += p.scale.text(p.scale.number(high))
            else:
                text = ", ".join(f"{shown(s)} {x:.4g}" for s, x in p.items())
            lines.append(f"{shown(name):<{width}}  {text}")
        return "\n".join([*lines, f"({self.run})"])


def marginals(known: MixedKnown, targets: Sequence[str] | None = None) -> MixedMarginals:
    """Return the distribution of each column given the evidence.

    Parameters
    ----------
    known : MixedKnown
        The model and the evidence.
    targets : sequence of str, optional
        The columns of interest, by default all.
    """
    domain = known.model.domain
    found: dict[str, Any] = {}
    for name in domain.names if targets is None else targets:
        domain.check(name)
        value = known.given.get(name)
        if value is not None and not isinstance(value, Condition):
            found[name] = {value: 1.0}
        elif name in domain.numeric:
            found[name] = known.number(name)
        else:
            found[name] = named(domain.categories[name], known.category(name))
    return MixedMarginals(found, known.run)


def likely_values(known: MixedKnown) -> dict[str, Any]:
    """Return the most probable value of each column given the evidence."""
    found = {}
    for name, p in marginals(known).items():
        found[name] = p.mode() if isinstance(p, NumberDistribution) else max(p, key=p.__getitem__)
    return found


def probability(known: MixedKnown, query: Any) -> Probability:
    """Return the probability of an event given the evidence.

    Parameters
    ----------
    known : MixedKnown
        The model and the evidence.
    query : mapping or str
        The event.
    """
    event = read_given(known.model.domain, query)
    below = known
    if known.fitted:
        below = MixedKnown(known.model, known.given, known.fitted)
    known.weights  # noqa: B018  raises if the evidence is impossible
    try:
        together = known.both(event)
        log = together.log_probability - below.log_probability
    except ModelError as error:
        if "impossible" not in str(error):
            raise
        return Probability(-np.inf, known.run, query=event, given=known.given)
    return Probability(min(log, 0.0), together.run, query=event, given=known.given)


def next_questions(known: MixedKnown, target: str) -> Questions:
    """Rank columns by what they tell about another (see `conjoin.next_questions`).

    Numbers are cut into ranges of equal probability given the evidence.
    """
    domain = known.model.domain
    domain.check(target)
    certain = [n for n, v in known.given.items() if not isinstance(v, Condition)]
    if target in certain:
        raise ModelError(f"{target!r} is given, so there is nothing left to ask about it")
    variable, cases = _cases(known, target, TARGET_BINS)
    columns = {n: _cases(known, n, BINS) for n in domain.names if n not in (target, *certain)}
    p = np.array([float(probability(known, {target: case})) for case in cases])
    joints = {n: np.zeros((len(variable), len(column))) for n, (column, _) in columns.items()}
    for k in np.flatnonzero(p > 0).tolist():
        after = known.both({target: cases[k]})
        for name, (_, ranges) in columns.items():
            joints[name][k] = p[k] * _distribution(after, name, ranges)
    p /= p.sum()
    questions = [
        question_of(columns[n][0], variable, p, joint / joint.sum()) for n, joint in joints.items()
    ]
    return Questions(target, named(variable, p), questions, known.run)


def _cases(known: MixedKnown, name: str, bins: int) -> tuple[Variable, list[Any]]:
    """Return a column as a variable, with ranges as the states of a number, and a condition per state."""
    domain = known.model.domain
    if name not in domain.numeric:
        variable = domain.categories[name]
        return variable, list(variable.states)
    scale, found = domain.scale(name), known.number(name)
    at = sorted({scale.number(found.quantile(q)) for q in (np.arange(1, bins) / bins).tolist()})
    values = [scale.value(x) for x in at]
    texts = [scale.text(x) for x in at]
    ranges = [Range(at_most=values[0]), *(Range(above=a, at_most=b) for a, b in pairwise(values))]
    labels = [f"up to {texts[0]}", *(f"above {a} up to {b}" for a, b in pairwise(texts))]
    return Variable(name, [*labels, f"above {texts[-1]}"]), [*ranges, Range(above=values[-1])]


def _distribution(known: MixedKnown, name: str, cases: list[Any]) -> FloatArray:
    """Return the probabilities of the states of `_cases`."""
    if name not in known.model.domain.numeric:
        return known.category(name)
    found = known.number(name)
    below = [found.cdf(case.at_most) for case in cases[:-1]]
    return np.maximum(np.diff([0.0, *below, 1.0]), 0.0)
