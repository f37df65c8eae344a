"""The methods that can be compared: from training and validation rows to a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from conjoin.bayesian.dependence_tree import tree_network
from conjoin.bayesian.learning import to_bayesian_network
from conjoin.conversion.convert import MAX_LENGTH, convert
from conjoin.data.table import Table
from conjoin.feature_search.learning import METHODS as FEATURE_SEARCHES
from conjoin.feature_search.learning import learn_features
from conjoin.joint.learning import learn_joint
from conjoin.joint.reliability import learn_say
from conjoin.joint.weight_learning import learn_weights
from conjoin.learning.learn import learn
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.network import Network

MAX_EXPANDED = 5e6
"""Averages over all orders are written out as plain conjunctions if there are at most this many."""


@dataclass(frozen=True)
class Rows:
    """What a method learns from, and with how many jobs."""

    train: Table
    valid: Table
    random_state: int
    n_jobs: int | None


@dataclass(frozen=True)
class Method:
    """One way to learn a network.

    Attributes
    ----------
    title : str
        What it is called in tables.
    cost : float
        Roughly how long it takes, compared with the conversion of trees.
    learn : callable
        Returns the network.
    """

    title: str
    cost: float
    learn: Callable[[Rows], Network]


def _dependency_network(cpd: str, rows: Rows) -> DependencyNetwork:
    return learn(rows.train, cpd, valid=rows.valid, n_jobs=rows.n_jobs, exhaustive=True)


def _converted(cpd: str, rows: Rows) -> Network:
    return convert(_dependency_network(cpd, rows), rows.train)


def _averaged(cpd: str, rows: Rows, *, weighed: bool = False) -> Network:
    """Average over all orders, on request with the say learned from the validation rows."""
    dn = _dependency_network(cpd, rows)
    say = learn_say(dn, rows.train, rows.valid) if weighed else None
    # Chains are sampled much faster if all features are plain conjunctions.
    lengths = dn.features()[0].lengths
    longest = int(lengths.max(initial=0)) if (2.0**lengths).sum() <= MAX_EXPANDED else MAX_LENGTH
    return convert(dn, rows.train, orders="all", max_length=max(longest, MAX_LENGTH), say=say)


def _weights(cpd: str, rows: Rows) -> Network:
    dn = _dependency_network(cpd, rows)
    return learn_weights(dn, rows.train, valid=rows.valid, n_jobs=rows.n_jobs)


def _joint(rows: Rows) -> Network:
    return learn_joint(
        rows.train, valid=rows.valid, random_state=rows.random_state, n_jobs=rows.n_jobs
    )[1]


def _bayesian(method: str, restore: bool, rows: Rows) -> Network:
    dn = _dependency_network("tree", rows)
    return to_bayesian_network(
        dn, rows.train, method, valid=rows.valid, restore=restore,
        random_state=rows.random_state, n_jobs=rows.n_jobs,
    )  # fmt: skip


def _features(method: str, rows: Rows) -> Network:
    return learn_features(
        rows.train, method, valid=rows.valid, random_state=rows.random_state, n_jobs=rows.n_jobs
    )


_TITLES = {
    "top-down": "top-down (Della Pietra et al.)",
    "bottom-up": "bottom-up (Davis and Domingos)",
    "generate-select": "generate and select (Van Haaren and Davis)",
    "staged": "L1 in stages (Lee et al.)",
}
METHODS: dict[str, Method] = {
    "tree": Method("closed form, trees, 2n rotations", 1, partial(_converted, "tree")),
    "tree.all": Method(
        "closed form, trees, all orders", 2, partial(_averaged, "tree")
    ),
    "tree.say": Method("closed form, trees, weighted", 3, partial(_averaged, "tree", weighed=True)),
    "logistic": Method("closed form, logistic", 1, partial(_converted, "logistic")),
    "logistic.say": Method(
        "closed form, logistic, weighted", 2, partial(_averaged, "logistic", weighed=True)
    ),
    "hybrid": Method("closed form, hybrid", 3, partial(_converted, "hybrid")),
    "hybrid.say": Method("closed form, hybrid, weighted", 5, partial(_averaged, "hybrid", weighed=True)),
    "logistic.weights": Method(
        "weight learning (Ravikumar et al.)", 8, partial(_weights, "logistic")
    ),
    "tree.weights": Method("weight learning, trees", 8, partial(_weights, "tree")),
    "dependence-tree": Method(
        "maximum-likelihood tree (Chow and Liu)", 1, lambda rows: tree_network(rows.train)
    ),
    "bayesian.published": Method(
        "Bayesian network, cycles broken (Hulten et al.)", 5,
        partial(_bayesian, "break-cycles", False),
    ),
    "bayesian": Method(
        "the same, edges given back", 5, partial(_bayesian, "break-cycles", True)
    ),
    "bayesian.order": Method(
        "Bayesian network, by order", 5, partial(_bayesian, "order", True)
    ),
    "joint": Method("default joint", 30, _joint),
    **{
        name: Method(_TITLES.get(name, name), 60, partial(_features, name))
        for name in FEATURE_SEARCHES
    },
}  # fmt: skip
"""All methods, in the order of tables."""
