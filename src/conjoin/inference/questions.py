"""What to ask next: the columns that tell most about another, and what each answer would tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from conjoin.data.answer_html import Bar, Cell, answer_html
from conjoin.data.arrays import FloatArray
from conjoin.data.domain import Variable
from conjoin.data.labels import shown
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.inference.engines import known_of, marginals
from conjoin.inference.evidence import Evidence, Given, evidence_of
from conjoin.inference.exact import answered, run_of
from conjoin.inference.methods import check_options
from conjoin.inference.plan import TooLarge
from conjoin.inference.results import Run
from conjoin.inference.soft_evidence import with_new_marginals
from conjoin.kernels.elimination_layouts import MARGINALS
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.left_out import names_left_out
from conjoin.models.network import Network

SHOWN, LEAST = 12, 0.001
"""Maximum number of questions that are printed, and their least information in bits."""


@dataclass(frozen=True)
class Question:
    """One column that could be asked for."""

    name: str  # the column
    # The expected information about the target, in bits: its mutual information with the column,
    # given the evidence
    information: float
    answers: dict[Any, float]  # {state: probability of this answer}
    # {state: {target's state: probability}}: the distribution of the target after each possible
    # answer
    targets: dict[Any, dict[Any, float]]


class Questions(Sequence[Question]):
    """The columns that could be asked for, the most informative one first.

    Attributes
    ----------
    target : str
        The column that matters.
    prior : dict
        {state: probability} of the target, before any answer.
    entropy : float
        The uncertainty about the target, in bits, which no answer can reduce by more.
    run : Run
        How they were found.
    """

    def __init__(
        self, target: str, prior: dict[Any, float], questions: Sequence[Question], run: Run
    ) -> None:
        self.target, self.prior, self.run = target, prior, run
        self._questions = sorted(questions, key=lambda q: -q.information)
        self.entropy = _entropy(np.array(list(prior.values())))

    @overload
    def __getitem__(self, at: int) -> Question: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Question]: ...
    def __getitem__(self, at: int | slice) -> Question | Sequence[Question]:
        return self._questions[at]

    def __len__(self) -> int:
        return len(self._questions)

    def __repr__(self) -> str:
        telling = self._telling()
        width = max((len(shown(q.name)) for q in telling[:SHOWN]), default=0)
        lines = [
            f"{shown(question.name):<{width}}  {question.information:.4f} bits  {self._move(question)}"
            for question in telling[:SHOWN]
        ]
        more = (
            (len(telling) - SHOWN, "more"),
            (len(self) - len(telling), f"of less than {LEAST} bits"),
        )
        lines += [f"... and {count} {what}" for count, what in more if count > 0]
        return "\n".join([self._now(), *lines])

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = []
        for question in self._telling()[:SHOWN]:
            bits = Bar(question.information / self.entropy, f"{question.information:.3f} bits")
            rows.append([shown(question.name), bits, self._move(question)])
        return answer_html("What to ask next", rows, self._now())

    def _now(self) -> str:
        """Return what is known of the target."""
        now = ", ".join(f"{shown(s)} {p:.4g}" for s, p in self.prior.items())
        return f"{shown(self.target)}: {now} ({self.entropy:.3g} bits; {self.run})"

    def _telling(self) -> list[Question]:
        return [question for question in self if question.information >= LEAST]

    def _move(self, question: Question) -> str:
        """Return the answer that is expected to move the target most, and how far."""
        moves = [
            (round(p * abs(after[state] - before), 12), answer, state)
            for answer, p in question.answers.items()
            for after in [question.targets.get(answer, self.prior)]
            for state, before in self.prior.items()
        ]
        _, answer, state = max(moves, key=lambda move: move[0])
        p, after = question.answers[answer], question.targets[answer][state]
        moved = f"{self.prior[state]:.4g} -> {after:.4g}"
        return f"if {shown(answer)} ({p:.4g}): {shown(state)} {moved}"


@names_lack_of_memory
@names_left_out
def next_questions(
    model: Any,
    target: str,
    given: Given = None,
    *,
    max_memory: float | None = None,
    **options: Any,
) -> Questions:
    """Rank the columns that are not known by what their values are expected to tell about another.

    The expected information is the mutual information of a column and the target given the evidence. One
    pass over the junction tree for each state of the target yields it for all columns, and the
    distribution of the target after each answer.

    Parameters
    ----------
    model : Network or JointModel
        The model. The answers to a question for a number are its intervals.
    target : str
        The column that matters.
    given : mapping or str, optional
        The evidence (see `marginals`).
    max_memory : float, optional
        Memory limit of exact inference, in bytes; by default the memory that is free. If that is not
        enough, and for a dependency network, the answer is approximate.
    **options
        Options of the approximation (see `marginals`).

    Returns
    -------
    questions : Questions
        A sequence, the most informative column first.

    Examples
    --------
    >>> from conjoin import BayesianNetwork, Domain, TableCPD
    >>> domain = Domain({"ill": ["no", "yes"], "test": ["-", "+"], "coin": ["heads", "tails"]})
    >>> bn = BayesianNetwork(domain, [
    ...     TableCPD.of(domain, "ill", [], 0.5),
    ...     TableCPD.of(domain, "test", ["ill"], {"no": 0.1, "yes": 0.9}),
    ...     TableCPD.of(domain, "coin", [], 0.5),
    ... ])
    >>> next_questions(bn, "ill")
    ill: no 0.5, yes 0.5 (1 bits; exact)
    test  0.5310 bits  if - (0.5): no 0.5 -> 0.9
    ... and 1 of less than 0.001 bits
    """
    check_options("marginals", options)
    network, known = known_of(model, given)
    v = network.domain.index(target)
    if v in known.states:
        raise ModelError(f"{target!r} is given, so there is nothing left to ask about it")
    try:
        if isinstance(network, DependencyNetwork):
            raise TooLarge("a dependency network is not one joint distribution")
        p, conditionals, run = _exact(network, v, known, max_memory)
    except TooLarge:
        p, conditionals, run = _approximate(
            network, v, known, {"max_memory": max_memory, **options}
        )
    variable = network.domain.variables[v]
    questions = [
        question_of(network.domain.variables[u], variable, p, p[:, None] * conditional)
        for u, conditional in conditionals.items()
    ]
    return Questions(target, named(variable, p), questions, run)


def _exact(
    model: Network, v: int, known: Evidence, max_memory: float | None
) -> tuple[FloatArray, dict[int, FloatArray], Run]:
    """Return P(target) and P(column | target), target states by column states, of all open columns."""
    known = with_new_marginals(model, known, max_memory)
    plan, log_z, flat, _ = answered(model, known, MARGINALS, max_memory, [v])
    p = np.exp(log_z - log_z.max())
    flat[log_z == -np.inf] = 0.0
    found = {}
    for u in range(len(model.domain.observed)):
        at = int(plan.place[u])
        if at >= 0:
            found[u] = flat[:, plan.marginal_first[at] : plan.marginal_first[at + 1]]
    return p / p.sum(), found, run_of(known)


def _approximate(
    model: Network, v: int, known: Evidence, options: dict[str, Any]
) -> tuple[FloatArray, dict[int, FloatArray], Run]:
    """Return the same by the marginals given each state of the target."""
    domain = model.domain
    variable = domain.variables[v]
    asked = [n for n in domain.observed.names if domain.index(n) not in known.states]
    prior = marginals(model, known, targets=asked, **options)
    p = prior.array(variable.name)
    rest = [domain.index(name) for name in asked if name != variable.name]
    found = {u: np.zeros((len(variable), int(domain.cards[u]))) for u in rest}
    for code in np.flatnonzero(p > 0).tolist():
        given = known.both(evidence_of(domain, {variable.name: variable.states[code]}))
        answer = marginals(model, given, targets=asked, **options)
        for u in rest:
            found[u][code] = answer.array(domain.names[u])
    return p, found, prior.run


def question_of(column: Variable, target: Variable, p: FloatArray, joint: FloatArray) -> Question:
    """Return what a column tells, from its joint distribution with the target (by rows)."""
    answers = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log2(joint / (p[:, None] * answers))
        after = joint / answers
    information = max(0.0, float(terms[joint > 0].sum()))
    return Question(
        column.name,
        information,
        named(column, answers),
        {s: named(target, after[:, k]) for k, s in enumerate(column.states) if answers[k] > 0},
    )


def named(variable: Variable, p: FloatArray) -> dict[Any, float]:
    """Return probabilities by state."""
    return dict(zip(variable.states, p.tolist(), strict=True))


def _entropy(p: FloatArray) -> float:
    return float(-(p[p > 0] * np.log2(p[p > 0])).sum()) + 0.0
