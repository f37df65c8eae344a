"""`convert`: from a dependency network to a Markov network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conjoin.conversion.base_distribution import resolve_base
from conjoin.conversion.orders import Orders, resolve_orders
from conjoin.conversion.sub_features import (
    SubFeatures,
    expand_all,
    expand_orders,
    integrate_all,
)
from conjoin.data.arrays import IntArray
from conjoin.errors import ModelError, names_lack_of_memory
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.features import Features
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import conditionals_of

MAX_LENGTH = 6
"""The longest features whose sub-features are written out when averaging over all orders."""


@names_lack_of_memory
def convert(
    dn: DependencyNetwork,
    table: Any = None,
    *,
    base: Any = None,
    orders: str = "rotations",
    order: Sequence[Any] | None = None,
    reverse: bool = True,
    max_length: int = MAX_LENGTH,
) -> MarkovNetwork:
    """Convert a dependency network to a Markov network of features, in closed form.

    If the conditionals are consistent with some joint distribution, the result is that distribution
    whatever the options (the paper's Section 4). If they are not, the options determine the base
    instances and the orders over which the conversion averages (Section 5).

    Parameters
    ----------
    dn : DependencyNetwork
        Its CPDs must be positive.
    table : Table, 2-dimensional array, or frame, optional
        Data from which base instances are drawn.
    base : None, str, mapping, Table, or sequence of mappings
        The base instance x', or the distribution over which it is averaged: 'marginals' (the product
        of the table's marginals; the default if there is a table), 'data' (the rows of the table),
        'uniform' (all instances; the default without a table), one instance {name: state}, several of
        them or a `Table`, or given marginals {name: {state: probability}}.
    orders : {'rotations', 'single', 'all'}
        Average over all rotations of each given order, over the given orders themselves, or over
        all orders.
    order : sequence of str, or sequence of such sequences, optional
        One order of the variables, or several; by default the domain's own. Variables that come
        before a CPD's target are fixed to the base instance (Table 2).
    reverse : bool
        Average over the reverse of each order too.
    max_length : int
        With ``orders='all'``, features with more tests than this are averaged by numerical
        integration, exactly, into features with off values, instead of into 2^k sub-features.

    Examples
    --------
    The inconsistent network of the paper's Section 5. A single base instance gives a skewed answer;
    averaging gives the uniform distribution, which a Gibbs sampler has too:

    >>> from conjoin import DependencyNetwork, Domain, TableCPD
    >>> domain = Domain({"x1": ["F", "T"], "x2": ["F", "T"]})
    >>> dn = DependencyNetwork(domain, [
    ...     TableCPD.of(domain, "x1", ["x2"], {"T": 4 / 5, "F": 1 / 5}),
    ...     TableCPD.of(domain, "x2", ["x1"], {"T": 1 / 5, "F": 4 / 5}),
    ... ])
    >>> states = [{"x1": a, "x2": b} for a in "TF" for b in "TF"]
    >>> one = convert(dn, base={"x1": "T", "x2": "T"}, orders="single", reverse=False)
    >>> p = np.exp(one.log_potential(states))
    >>> (85 * p / p.sum()).round(9)
    array([ 4., 16.,  1., 64.])
    >>> np.allclose(convert(dn).log_potential(states), 0)
    True
    """
    dn = conditionals_of(dn)
    check_kind(dn)
    distribution, base_name = resolve_base(dn.domain, base, table)
    family = resolve_orders(dn.domain, orders, order, reverse)
    if max_length < 0:
        raise ModelError(f"max_length must be 0 or more, not {max_length}")
    check_positive(dn)
    features, owner = dn.form.features, dn.form.owner
    assert owner is not None
    bound = distribution.bind(features.tests)
    result = _convert(features, owner, bound, family, max_length)
    options: dict[str, Any] = {"base": base_name, "orders": orders}
    if family.everything:
        options["max_length"] = max_length
    else:
        options["reverse"] = reverse
        options["order"] = "domain" if order is None else "given"
    provenance = {**dn.provenance, "converted_from": dn.kind, "conversion": options}
    return MarkovNetwork(dn.domain, result, provenance=provenance)


def _convert(
    features: Features, owner: IntArray, bound: Any, family: Orders, max_length: int
) -> Features:
    sub = SubFeatures(features.tests)
    if not family.everything:
        expand_orders(sub, features, owner, bound, family)
        return sub.collect()
    short = np.flatnonzero(features.lengths <= max_length)
    expand_all(sub, features.select(short), owner[short], bound)
    expanded = sub.collect()
    long = np.flatnonzero(features.lengths > max_length)
    if not len(long):
        return expanded
    integrated = integrate_all(features.select(long), owner[long], bound)
    return Features.concatenate([expanded, integrated]) if len(short) else integrated


def check_kind(dn: Any) -> None:
    """Reject anything but a dependency network, and say what to do instead."""
    if isinstance(dn, BayesianNetwork):
        raise ModelError(
            "this is a Bayesian network: `to_markov_network()` rewrites it exactly, and "
            "`DependencyNetwork.from_bayesian_network` gives its conditionals"
        )
    if not isinstance(dn, DependencyNetwork):
        raise ModelError(f"expected a dependency network, not a {type(dn).__name__}")


def check_positive(dn: DependencyNetwork) -> None:
    """Reject CPDs with probabilities of 0 or 1, which the conversion would divide by."""
    features, owner = dn.features()
    if features.soft_rows().any():
        raise ModelError(
            "CPDs with off values cannot be converted; they are the conditionals of a network that was "
            "averaged over all orders"
        )
    wrong = np.flatnonzero(~np.isfinite(features.weights))
    if len(wrong):
        f = int(wrong[0])
        words = features.select(wrong[:1]).describe(dn.domain)[0].split("  ", 1)[1]
        raise ModelError(
            f"the CPD of {dn.domain.names[owner[f]]!r} has a probability of 0 or 1 ({words}); the "
            "conversion needs positive conditionals, so replace 0 by a small probability"
        )
