"""What if: the same row under changed evidence, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.answer_html import answer_html
from conjoin.data.domain import Domain
from conjoin.data.frames import columns_of
from conjoin.data.labels import shown
from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.conditions import label_text
from conjoin.inference.engines import marginals
from conjoin.inference.evidence import Evidence, Given, evidence_of
from conjoin.inference.methods import check_options
from conjoin.inference.number_distribution import NumberDistribution
from conjoin.inference.results import aligned
from conjoin.models.left_out import names_left_out
from conjoin.models.network import network_of

SHOWN = 20
"""Maximum number of columns that are printed."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Answers under different evidence."""

    evidence: list[Any]  # the evidence as it is, and after each change
    answers: list[Any]  # the distributions of the targets under each
    changes: list[str]  # the changes, in words

    def moved(self, name: str) -> float:
        """Return the largest change of the distribution of a column.

        It is half the sum of the differences of all probabilities, and for a number the largest
        difference of the cumulative probabilities.
        """
        before, *after = (found[name] for found in self.answers)
        if isinstance(before, NumberDistribution):
            ends = [before.quantile(q) for q in np.linspace(0.05, 0.95, 19).tolist()]
            return max(abs(before.cdf(x) - p.cdf(x)) for p in after for x in ends)
        return max(sum(abs(p[s] - x) for s, x in before.items()) / 2 for p in after)

    def _rows(self) -> tuple[list[list[str]], str]:
        """Return the rows of a table, the columns that move most first, and how they were found."""
        names = sorted(self.answers[0], key=lambda name: -self.moved(name))
        rows = [["", "as it is", *(shown(change) for change in self.changes)]]
        for name in names[:SHOWN]:
            rows += _lines(name, [found[name] for found in self.answers])
        if len(names) > SHOWN:
            last = [f"... and {len(names) - SHOWN} more columns, which move less"]
            rows.append(last + [""] * (len(rows[0]) - 1))
        return rows, "; ".join(dict.fromkeys(str(found.run) for found in self.answers))

    def __repr__(self) -> str:
        rows, runs = self._rows()
        return "\n".join([*(line.rstrip() for line in aligned(rows)), f"({runs})"])

    def _repr_html_(self) -> str:
        rows, runs = self._rows()
        return answer_html("", rows[1:], runs, rows[0])


def _lines(name: str, found: list[Any]) -> list[list[str]]:
    """Return the lines of a column: the probabilities of its states, or its mean and interval."""
    if not isinstance(found[0], NumberDistribution):
        return [
            [f"{shown(name)}={shown(state)}", *(f"{p[state]:.4f}" for p in found)]
            for state in found[0]
        ]
    scale = found[0].scale
    ends = [[scale.number(x) for x in p.interval(0.9)] for p in found]
    spread = min(high - low for low, high in ends)
    texts = [[scale.short(x, spread) for x in pair] for pair in ends]
    return [
        [f"{shown(name)}: mean", *(scale.short(p.mean(), spread) for p in found)],
        [f"{shown(name)}: 90% between", *(" and ".join(pair) for pair in texts)],
    ]


@names_left_out
def what_if(
    model: Any,
    row: Any,
    changes: Given | Sequence[Given],
    *,
    targets: Sequence[str] | None = None,
    **options: Any,
) -> WhatIf:
    """Compare the distributions of columns under the evidence of a row and under changed evidence.

    A change replaces what the row says of the same columns. This is a change of what is known, not of
    the world: other columns follow as they do in the table, whether or not one causes the other.

    Parameters
    ----------
    model : Network or JointModel
        The model.
    row : mapping or str, or a table of one row
        What is known. Of a table, a frame or a row of a pandas frame, missing values and columns that
        the model does not have are ignored.
    changes : mapping or str, or a list of them
        The evidence that changes; {column: None} forgets what is known of a column.
    targets : sequence of str, optional
        The columns to compare, which are not taken from the row; by default all those that neither
        the row nor a change determines.
    **options
        Options of `marginals`.

    Returns
    -------
    WhatIf

    Examples
    --------
    >>> from conjoin import BayesianNetwork, Domain, TableCPD
    >>> domain = Domain({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> bn = BayesianNetwork(domain, [
    ...     TableCPD.of(domain, "rain", [], 0.2),
    ...     TableCPD.of(domain, "wet", ["rain"], {"no": 0.1, "yes": 0.9}),
    ... ])
    >>> what_if(bn, "rain=no", ["rain=yes", {"rain": None}])
             as it is  rain=yes  forget rain
    wet=no     0.9000    0.1000       0.7400
    wet=yes    0.1000    0.9000       0.2600
    (exact)
    """
    several = isinstance(changes, Sequence) and not isinstance(changes, str)
    listed: list[Any] = list(changes) if several else [changes]  # type: ignore[arg-type]
    if not listed:
        raise ModelError("give at least one change")
    check_options("marginals", options)
    row = evidence_of_row(model, row)
    domain, known = _asked(model, row)
    for name in targets or ():
        domain.index(name)
        known = known.without(targets or ())
    evidence = [known]
    read: list[str] = []
    for change in listed:
        forgotten, kept = _forgotten(change)
        _, new = _asked(model, kept)
        evidence.append(known.without([*forgotten, *new.given]).both(new))
        words = [str(new), *(f"forget {label_text(name)}" for name in forgotten)]
        read.append(", ".join(filter(None, words)))
    determined = set().union(*(e.certain for e in evidence))
    names = targets
    if names is None:
        names = [n for n in domain.observed.names if n not in determined]
        if not names:
            raise ModelError(
                "the row and the changes determine all columns, so there is nothing to compare; choose "
                "the columns to compare with targets=[...]"
            )
    network = network_of(model)
    answers = [marginals(network, e, targets=names, **options) for e in evidence]
    return WhatIf(evidence, answers, read)


def evidence_of_row(model: Any, row: Any) -> Given:
    """Return what a row says of the columns of a model; evidence of any other kind stays as it is.

    A row is a row of a pandas frame, or a table, frame or array of one row.
    """
    if row is None or isinstance(row, str | Mapping | Evidence):
        return row
    if hasattr(row, "to_frame") and hasattr(row, "index"):
        row = row.to_frame().T
    elif isinstance(row, list | tuple):
        row = np.array(row, object)
    domain = network_of(model).domain
    columns = columns_of(row, domain=domain)
    if len(columns[0].codes) != 1:
        raise ModelError(f"give one row, not {len(columns[0].codes)}")
    found = {c.name: c.labels[c.codes[0]] for c in columns if c.codes[0] >= 0}
    known = {name: value for name, value in found.items() if name in domain.names}
    if found and not known:
        raise ModelError(
            "the row has none of the columns of the model. "
            + did_you_mean(next(iter(found)), domain.observed.names)
        )
    return known


def _asked(model: Any, given: Given) -> tuple[Domain, Evidence]:
    """Return the columns of a model, and evidence on them; numbers keep their values."""
    network = network_of(model)
    if hasattr(model, "_known"):
        return network.domain, model._known(given)[1]
    return network.domain, evidence_of(network.domain, given)


def _forgotten(change: Any) -> tuple[list[str], Any]:
    """Return the columns that a change forgets, and what it says of others."""
    if not isinstance(change, Mapping):
        return [], change
    forgotten = [name for name, value in change.items() if value is None]
    return forgotten, {name: value for name, value in change.items() if value is not None}
