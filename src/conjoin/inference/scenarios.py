"""What if: the same row under changed evidence, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conjoin.data.labels import shown
from conjoin.errors import ModelError
from conjoin.inference.conditions import label_text
from conjoin.inference.engines import known_of, marginals
from conjoin.inference.evidence import Evidence, Given
from conjoin.inference.results import Marginals

SHOWN = 20
"""Maximum number of columns that are printed."""


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Answers under different evidence.

    Attributes
    ----------
    evidence : list of Evidence
        The evidence as it is, and after each change.
    answers : list of Marginals
        The distributions of the targets under each.
    changes : list of str
        The changes, in words.
    """

    evidence: list[Evidence]
    answers: list[Marginals]
    changes: list[str]

    def moved(self, name: str) -> float:
        """Return the largest change of the distribution of a column: half the sum of all differences."""
        before, *after = (found.array(name) for found in self.answers)
        return max(float(np.abs(p - before).sum() / 2) for p in after)

    def __repr__(self) -> str:
        names = sorted(self.answers[0], key=lambda name: -self.moved(name))
        rows = [["", "as it is", *(shown(change) for change in self.changes)]]
        for name in names[:SHOWN]:
            listed = self.answers[0][name]
            for state in listed:
                cells = [f"{found[name][state]:.4f}" for found in self.answers]
                rows.append([f"{shown(name)}={shown(state)}", *cells])
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


def what_if(
    model: Any,
    row: Given,
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
    row : mapping or str
        What is known.
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
    network, known = known_of(model, row)
    if targets is not None:
        known_of(model, None, targets)
        known = known.without(targets)
    several = isinstance(changes, Sequence) and not isinstance(changes, str)
    listed: list[Any] = list(changes) if several else [changes]  # type: ignore[arg-type]
    if not listed:
        raise ModelError("give at least one change")
    evidence = [known]
    read: list[str] = []
    for change in listed:
        forgotten = (
            [n for n, v in change.items() if v is None] if isinstance(change, Mapping) else []
        )
        kept = {n: v for n, v in change.items() if v is not None} if forgotten else change
        _, new = known_of(model, kept)
        evidence.append(known.without([*forgotten, *new.given]).both(new))
        words = [str(new), *(f"forget {label_text(n)}" for n in forgotten)]
        read.append(", ".join(filter(None, words)))
    determined = set().union(*(e.certain for e in evidence))
    names = targets
    if names is None:
        names = [n for n in network.domain.observed.names if n not in determined]
    answers = [marginals(network, e, targets=names, **options) for e in evidence]
    return WhatIf(evidence, answers, read)
