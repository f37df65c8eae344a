"""A network of bins in place of a mixed network, for pictures and reports."""

from __future__ import annotations

import numpy as np

from conjoin.data.mixed_table import MixedTable
from conjoin.data.table import Table
from conjoin.estimator.encoding import BINS
from conjoin.inference.mixed import MixedAnswers
from conjoin.models.markov import MarkovNetwork
from conjoin.models.mixed import MixedNetwork

DRAWN_ROWS = 5_000
"""Number of rows that are drawn from a mixed network to learn a network of bins from."""


def drawn_rows(model: MixedNetwork, count: int, seed: int) -> MixedTable:
    """Return rows that are drawn from a mixed network."""
    domain = model.domain
    none = np.full((count, len(domain.categories)), -1, np.int64)
    empty = MixedTable(
        domain, Table(domain.categories, none), np.full((count, len(domain.scales)), np.nan)
    )
    return MixedAnswers(model, empty, seed).draws(1)[0]


def network_of_bins(model: MixedNetwork, seed: int = 0) -> MarkovNetwork:
    """Return a network of states that resembles a mixed network: learned from its draws, cut into bins.

    It is meant for pictures of what depends on what, not for probabilities.
    """
    from conjoin.joint.learning import learn_joint

    rows = drawn_rows(model, DRAWN_ROWS, seed)
    table = rows.binned(dict.fromkeys(rows.domain.numeric, BINS))
    return learn_joint(table, effort="quick", random_state=seed)[1]
