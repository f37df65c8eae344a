"""How much the links of a model explain, by rows that were kept aside while it was learned."""

from __future__ import annotations

import numpy as np

from conjoin.data.arrays import FloatArray
from conjoin.reports.learned import held_out_score
from conjoin.reports.subject import Subject

MAX_DRAWS = 1_000
"""Number of drawn values by which the uncertainty about a number is estimated."""


def share_explained(subject: Subject) -> float | None:
    """Return the share of the uncertainty about a row that disappears because columns go together.

    It compares the log-probability of rows that were kept aside with the entropy of the columns on their
    own. None if the model has no such record.
    """
    score = held_out_score(subject.model.provenance)
    if score is None:
        return None
    alone = sum(_entropy(subject, i) for i in range(len(subject.names)))
    return 1 + score / alone if alone > 0 else None


def _entropy(subject: Subject, i: int) -> float:
    """Return the entropy of a column in nats, at the resolution of its values."""
    name = subject.names[i]
    if name not in subject.domain.numeric:
        p: FloatArray = subject.joints.single(i)
        return float(-(p * np.log(np.maximum(p, 1e-300))).sum())
    values = subject.drawn.column(name)[:MAX_DRAWS]
    found = subject.number_rows(name).select(np.zeros(len(values), np.int64))
    return float(-found.log_mass(values).mean())
