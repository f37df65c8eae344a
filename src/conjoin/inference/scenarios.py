"""What if: the same row under changed evidence, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.frames import columns_of
from conjoin.data.labels import shown
from conjoin.data.mixed_table import MixedTable
from conjoin.errors import ModelError, did_you_mean
from conjoin.inference.condition_text import conditions_text
from conjoin.inference.conditions import label_text
from conjoin.inference.engines import known_of, marginals, warn_of_between, with_numbers
from conjoin.inference.evidence import Evidence, Given
from conjoin.inference.methods import check_options
from conjoin.inference.mixed_evidence import MixedKnown
from conjoin.inference.mixed_questions import marginals as mixed_marginals
from conjoin.inference.mixed_questions import mixed_known
from conjoin.inference.number_distribution import NumberDistribution
from conjoin.models.left_out import names_left_out

SHOWN = 20
"""Maximum number of columns that are printed."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Answers under different evidence.

    Attributes
    ----------
    evidence : list of Evidence, or of dict
        The evidence as it is, and after each change.
    answers : list of Marginals or MixedMarginals
        The distributions of the targets under each.
    changes : list of str
        The changes, in words.
    """

    evidence: list[Any]
    answers: list[Any]
    changes: list[str]

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

    def __repr__(self) -> str:
        names = sorted(self.answers[0], key=lambda name: -self.moved(name))
        rows = [["", "as it is", *(shown(change) for change in self.changes)]]
        for name in names[:SHOWN]:
            rows += _lines(name, [found[name] for found in self.answers])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        if len(names) > SHOWN:
            lines.append(f"... and {len(names) - SHOWN} more columns, which move less")
        runs = dict.fromkeys(str(found.run) for found in self.answers)
        return "\n".join([*lines, f"({'; '.join(runs)})"])


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
    model : Network, MixedNetwork or JointModel
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
    mixed, _ = with_numbers(model, row, options)
    if mixed is not None:
        return _mixed_what_if(model, mixed, listed, targets)
    network, known = known_of(model, row)
    if targets is not None:
        known_of(model, None, targets)
        known = known.without(targets)
    evidence = [known]
    read: list[str] = []
    for change in listed:
        forgotten, kept = _forgotten(change)
        _, new = known_of(model, kept)
        evidence.append(known.without([*forgotten, *new.given]).both(new))
        read.append(_words(str(new), forgotten))
    determined = set().union(*(e.certain for e in evidence))
    names = targets
    if names is None:
        names = [n for n in network.domain.observed.names if n not in determined]
        _check_open(names)
    answers = [marginals(network, e, targets=names, **options) for e in evidence]
    return WhatIf(evidence, answers, read)


def _mixed_what_if(
    model: Any, known: MixedKnown, changes: list[Any], targets: Sequence[str] | None
) -> WhatIf:
    """Compare the answers of a model with numbers."""
    network, left = known.model, set(targets or ())
    for name in left:
        network.domain.check(name)
    start = {n: v for n, v in known.given.items() if n not in left}
    evidence, read = [start], []
    for change in changes:
        forgotten, kept = _forgotten(change)
        new = mixed_known(model, kept).given  # type: ignore[union-attr]
        gone = {*forgotten, *new}
        evidence.append({n: v for n, v in start.items() if n not in gone} | new)
        read.append(_words(conditions_text(new), forgotten))
        warn_of_between(network, new)
    asked = [MixedKnown(network, given) for given in evidence]
    certain = {name for one in asked for name in one.certain}
    names = list(targets or [n for n in network.names if n not in certain])
    _check_open(names)
    return WhatIf(evidence, [mixed_marginals(one, names) for one in asked], read)


def evidence_of_row(model: Any, row: Any) -> Given:
    """Return what a row says of the columns of a model; evidence of any other kind stays as it is.

    A row is a row of a pandas frame, or a table, frame or array of one row.
    """
    if row is None or isinstance(row, str | Mapping | Evidence):
        return row
    if hasattr(row, "to_frame") and hasattr(row, "index"):
        row = row.to_frame().T
    elif isinstance(row, MixedTable):
        row = row.as_states()
    elif isinstance(row, list | tuple):
        row = np.array(row, object)
    columns = columns_of(row)
    if len(columns[0].codes) != 1:
        raise ModelError(f"give one row, not {len(columns[0].codes)}")
    own = getattr(model, "model_", model).domain
    found = {c.name: c.labels[c.codes[0]] for c in columns if c.codes[0] >= 0}
    known = {name: value for name, value in found.items() if name in own.names}
    if found and not known:
        raise ModelError(
            "the row has none of the columns of the model. "
            + did_you_mean(next(iter(found)), own.observed.names)
        )
    return known


def _check_open(names: Sequence[str]) -> None:
    if not names:
        raise ModelError(
            "the row and the changes determine all columns, so there is nothing to compare; choose "
            "the columns to compare with targets=[...]"
        )


def _forgotten(change: Any) -> tuple[list[str], Any]:
    """Return the columns that a change forgets, and what it says of others."""
    if not isinstance(change, Mapping):
        return [], change
    forgotten = [name for name, value in change.items() if value is None]
    return forgotten, {name: value for name, value in change.items() if value is not None}


def _words(new: str, forgotten: list[str]) -> str:
    """Return a change in words."""
    return ", ".join(filter(None, [new, *(f"forget {label_text(n)}" for n in forgotten)]))
