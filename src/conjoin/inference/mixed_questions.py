"""Questions to a mixed network: distributions, probabilities of events, what to ask next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Domain, Variable
from conjoin.data.labels import shown
from conjoin.data.number_scale import NumberScale
from conjoin.errors import ModelError
from conjoin.inference import exact
from conjoin.inference.conditions import Range
from conjoin.inference.mixed_evidence import NEGLIGIBLE, MixedKnown, read_given
from conjoin.inference.number_distribution import NumberDistribution
from conjoin.inference.number_evidence import range_words
from conjoin.inference.plan import Forecast
from conjoin.inference.questions import Questions, named, question_of
from conjoin.inference.results import Assignment, Joint, LogValue, Probability, Run
from conjoin.models.mixed import MixedNetwork

BINS = 10
"""Number of ranges of equal probability into which a number is cut, to say what it tells."""

TARGET_BINS = 8
"""The same for a number that is to be found out."""

JOINT_BINS = 5
"""The same for the joint distribution of a number and other columns."""


def mixed_known(model: Any, given: Any = None) -> MixedKnown | None:
    """Return a mixed network with evidence; None for any other model."""
    if isinstance(model, MixedNetwork):
        return MixedKnown.asked(model, given)
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
        if name in known.certain:
            found[name] = {known.certain[name]: 1.0}
        elif name in domain.numeric:
            found[name] = known.number(name)
        else:
            found[name] = named(domain.categories[name], known.category(name))
    return MixedMarginals(found, known.run)


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


def log_partition(known: MixedKnown) -> LogValue:
    """Return the log-probability of the evidence: a log-density, per unit of known numbers."""
    if known.targets:
        raise ModelError(
            f"a new marginal (of {', '.join(known.targets)}) is no observation, so it has no "
            "probability; use a likelihood per state or range instead"
        )
    steps = [np.log(known.model.map_of(n).step) for n in known.certain if n in known.pieces]
    return LogValue(known.log_probability - float(sum(steps)), known.run, given=known.given)


def range_marginals(known: MixedKnown) -> list[FloatArray]:
    """Return the distribution of each column; of a number, that of ten ranges.

    The ranges have equal probability before the evidence, so that they do not depend on it.
    """
    prior, found = MixedKnown(known.model), []
    for name in known.model.names:
        _, cases = _cases(prior, name, BINS)
        if name in known.certain:
            held = [float(probability(known, {name: case})) for case in cases]
            found.append(np.array(held))
        else:
            found.append(_distribution(known, name, cases))
    return found


def most_probable(known: MixedKnown, method: str = "auto", **options: Any) -> Assignment:
    """Return the most probable row that an ascent finds (see `mixed_mode.most_probable`)."""
    from conjoin.inference import mixed_mode

    if method not in ("auto", "ascent"):
        raise ModelError(
            f"the most probable row of a model with numbers is found by method='ascent', not {method!r}"
        )
    return mixed_mode.most_probable(known, **options)


def forecast(known: MixedKnown, max_memory: float | None = None) -> Forecast:
    """Return the cost of the networks of all components, once per case of the evidence."""
    found = [exact.forecast(c.network, max_memory=max_memory) for c in known.model.components]
    largest = max(found, key=lambda f: f.largest)
    return replace(largest, seconds=sum(f.seconds for f in found) * known.count)


def next_questions(known: MixedKnown, target: str) -> Questions:
    """Rank columns by what they tell about another (see `conjoin.next_questions`).

    Numbers are cut into ranges of equal probability given the evidence.
    """
    domain = known.model.domain
    domain.check(target)
    certain = known.certain
    if target in certain:
        raise ModelError(f"{target!r} is given, so there is nothing left to ask about it")
    variable, cases = _cases(known, target, TARGET_BINS)
    columns = {n: _cases(known, n, BINS) for n in domain.names if n not in (target, *certain)}
    p = _distribution(known, target, cases)
    joints = {n: np.zeros((len(variable), len(column))) for n, (column, _) in columns.items()}
    run = known.run
    for k in np.flatnonzero(p > NEGLIGIBLE).tolist():
        after = known.both({target: cases[k]})
        run = after.run
        for name, (_, ranges) in columns.items():
            joints[name][k] = p[k] * _distribution(after, name, ranges)
    p /= p.sum()
    questions = [
        question_of(columns[n][0], variable, p, joint / joint.sum()) for n, joint in joints.items()
    ]
    return Questions(target, named(variable, p), questions, run)


def joint(known: MixedKnown, targets: Sequence[str], bins: Any = None) -> Joint:
    """Return the joint distribution of a few columns given the evidence; numbers are cut into ranges.

    Parameters
    ----------
    known : MixedKnown
        The model and the evidence.
    targets : sequence of str
        The columns, in the order of the table's axes.
    bins : int, or mapping, optional
        The number of ranges of each number, of equal probability given the evidence, or {column: cut
        points between ranges}. A value at a cut point belongs to the range above it.
    """
    domain = known.model.domain
    if len(set(targets)) != len(targets) or not targets:
        raise ModelError("give the names of different columns")
    for name in targets:
        domain.check(name)
    cuts = bins if isinstance(bins, Mapping) else {}
    for name in cuts:
        domain.scale(name)
    count = JOINT_BINS if bins is None or cuts else bins
    if not isinstance(count, int | np.integer) or count < 1:
        raise ModelError(f"bins must be a number of ranges or {{column: cut points}}, not {bins!r}")
    columns = [_cases(known, name, int(count), cuts.get(name)) for name in targets]
    table = np.zeros([len(variable) for variable, _ in columns])
    run = _fill_joint(known, targets, [cases for _, cases in columns], table)
    return Joint(Domain([variable for variable, _ in columns]), table / table.sum(), run)


def _fill_joint(known: MixedKnown, targets: Sequence[str], cases: list[Any], table: Any) -> Run:
    """Fill in probabilities: of each case of the first column, times those of the rest given it.

    Return how the last of them were found.
    """
    p = _distribution(known, targets[0], cases[0])
    run = known.run
    if len(targets) == 1:
        table[:] = p
        return run
    for k in np.flatnonzero(p > NEGLIGIBLE).tolist():
        after = known if len(cases[0]) == 1 else known.both({targets[0]: cases[0][k]})
        run = _fill_joint(after, targets[1:], cases[1:], table[k])
        table[k] *= p[k]
    return run


def _cases(
    known: MixedKnown, name: str, bins: int, cuts: Sequence[Any] | None = None
) -> tuple[Variable, list[Any]]:
    """Return a column as a variable, with ranges as the states of a number, and a condition per state.

    Ranges end at quantiles, which belong to them, or begin at cut points.
    """
    domain = known.model.domain
    if name in known.certain:
        return Variable(name, [known.certain[name]]), [known.certain[name]]
    if name not in domain.numeric:
        variable = domain.categories[name]
        return variable, list(variable.states)
    scale = domain.scale(name)
    if cuts is not None:
        numbers = [scale.number(cut) for cut in cuts]
        if any(a >= b for a, b in pairwise(numbers)) or not numbers:
            raise ModelError(f"the cut points of {name!r} must increase, not {list(cuts)}")
        ends = [scale.value(x) for x in numbers]
        between = [Range(at_least=a, below=b) for a, b in pairwise(ends)]
        cases = [Range(below=ends[0]), *between, Range(at_least=ends[-1])]
    else:
        found = known.number(name)
        quantiles = {scale.number(found.quantile(k / bins)) for k in range(1, bins)}
        ends = [scale.value(x) for x in sorted(quantiles)]
        between = [Range(above=a, at_most=b) for a, b in pairwise(ends)]
        cases = [Range(at_most=ends[0]), *between, Range(above=ends[-1])] if ends else []
        if not cases:
            return Variable(name, ["any"]), [Range(at_least=scale.value(scale.low))]
    edges = [_upper_edge(scale, case) for case in cases[:-1]]
    first, last = min(scale.low, edges[0] - 1), max(scale.high, edges[-1] + 1)
    words = [range_words(scale, case) for case in cases]
    return Variable(name, words, [first, *edges, last]), cases


def _upper_edge(scale: NumberScale, case: Range) -> float:
    """Return the first number above a range."""
    if case.at_most is None:
        return scale.number(case.below)
    return float(np.nextafter(scale.number(case.at_most), np.inf))


def _distribution(known: MixedKnown, name: str, cases: list[Any]) -> FloatArray:
    """Return the probabilities of the states of `_cases`."""
    if name in known.certain:
        return np.ones(1)
    if name not in known.model.domain.numeric:
        return known.category(name)
    found = known.number(name)
    ends = [(case.below, True) if case.at_most is None else (case.at_most, False) for case in cases]
    below = [found.cdf(end, strict=strict) for end, strict in ends[:-1]]
    return np.maximum(np.diff([0.0, *below, 1.0]), 0.0)
