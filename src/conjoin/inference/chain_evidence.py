"""Questions to a joint with a chain of conditionals: one more factor over the unknown columns.

The factor is how much more probable the mixture of the network and the chain is than the network. It is
a table over all unknown columns. If they have too many joint states, the network alone answers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conjoin.data.table import code_dtype, joint_codes
from conjoin.inference import exact
from conjoin.inference.completion import row_log_sums
from conjoin.inference.evidence import Evidence
from conjoin.models.conditional_chain import log_mixture
from conjoin.models.joint import Joint
from conjoin.models.markov import TableFactor

MAX_STATES = 1 << 12
"""Maximum number of joint states of unknown columns that a chain is summed over."""


def chain_factor(model: Joint, known: Evidence) -> tuple[list[TableFactor], Evidence]:
    """Return what a chain adds to the network as a factor, and the evidence."""
    chain = model.chain
    if chain is None:
        return [], known
    cards = chain.domain.cards
    scope = np.flatnonzero([v not in known.states for v in range(len(cards))])
    if np.prod(cards[scope], dtype=float) > MAX_STATES:
        return [], replace(known, by_network=True)
    codes = joint_codes(cards, scope.tolist()).astype(np.int64)
    for v in known.states:
        if v < len(cards):
            codes[:, v] = known.states[v]
    sums = row_log_sums(model, codes.astype(code_dtype(cards)))[0]
    network = sums - exact.log_partition(model).value
    with np.errstate(invalid="ignore"):
        ratio = chain.log_likelihood(codes) - network
    ratio = np.where(network > -np.inf, ratio, -np.inf)
    ratio = log_mixture(chain.share, np.zeros(len(ratio)), ratio)
    if not len(scope):  # a constant, as a factor of a known column
        return [TableFactor((0,), np.full(cards[0], ratio[0]))], known
    return [TableFactor(tuple(scope.tolist()), ratio.reshape(cards[scope].tolist()))], known
