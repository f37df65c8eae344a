"""Jeffrey's rule: likelihoods that give some columns new marginals.

The result is the distribution that is closest, in Kullback-Leibler divergence, to the one given all other
evidence, among those in which each of these columns has its new marginal. For a single column that is
Jeffrey's rule: the conditional distribution given each of its states stays what it was. For several it
is found by iterative proportional fitting: the likelihood of one column after another is multiplied by
its new marginal and divided by its current one, which exact inference computes, until all of them fit.
"""

from __future__ import annotations

import numpy as np

from conjoin.errors import ModelError
from conjoin.inference.compilation import compiled
from conjoin.inference.evidence import Evidence
from conjoin.kernels.elimination_layouts import MARGINALS
from conjoin.models.network import Network

TOLERANCE = 1e-12
"""Iterative proportional fitting ends when no probability differs by more than this."""

MAX_PASSES = 10_000
"""Maximum number of exact passes over the network."""


def with_new_marginals(model: Network, known: Evidence, max_memory: float | None) -> Evidence:
    """Return evidence without new marginals, whose likelihoods produce them."""
    if not known.marginals:
        return known
    wanted = known.marginals
    soft = [*wanted, *known.likelihoods]
    plan = compiled(model).plan(tuple(known.states), max_memory, tuple(wanted), soft=soft)
    slots = plan.slots(list(known.states.values()))
    logs = {v: new.spread(np.zeros(len(new.p))) for v, new in wanted.items()}
    off = dict.fromkeys(wanted, np.inf)
    for turn in range(MAX_PASSES):
        v = list(wanted)[turn % len(wanted)]
        tilted = known.with_likelihoods(dict(logs))
        log_z, flat, _ = plan.run(slots, MARGINALS, tilted.tilt())
        if log_z[0] == -np.inf:
            raise _unreachable(known)
        for u, new in wanted.items():
            at = plan.marginal_first[plan.place[u]] if plan.place[u] >= 0 else 0
            now = flat[0, at : at + len(new.group)] if plan.place[u] >= 0 else np.ones(1)
            sums = new.sums(now)
            off[u] = float(np.abs(sums - new.p).max())
            if u == v:
                if (sums[new.p > 0] == 0).any():
                    raise _unreachable(known)
                with np.errstate(divide="ignore", invalid="ignore"):
                    logs[u] = logs[u] + new.spread(np.log(new.p / sums))
        if max(off.values()) <= TOLERANCE:
            return tilted
        off[v] = 0.0
    raise ModelError(
        f"no distribution with the new marginals was found in {MAX_PASSES:,} passes: they contradict "
        f"each other, or nearly so ({known})"
    )


def _unreachable(known: Evidence) -> ModelError:
    names = ", ".join(known.domain.names[v] for v in known.marginals)
    return ModelError(
        f"the new marginals of {names} cannot be reached: a state of theirs is impossible given the "
        f"other evidence, or they contradict each other ({known})"
    )
