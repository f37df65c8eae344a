"""Conjoin: learn a joint distribution from conditionals, and ask it anything.

The names below cover the whole path from a table to an answer. More specialised functions live in the
subpackages: `conjoin.data`, `conjoin.inference`, `conjoin.joint`, `conjoin.scoring`, `conjoin.reports`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from conjoin.bayesian.learning import to_bayesian_network as to_bayesian_network
    from conjoin.conversion.convert import convert as convert
    from conjoin.conversion.inconsistency import inconsistency as inconsistency
    from conjoin.data.domain import Domain as Domain
    from conjoin.data.domain import Variable as Variable
    from conjoin.data.table import Table as Table
    from conjoin.errors import ConjoinError as ConjoinError
    from conjoin.estimator.joint_model import JointModel as JointModel
    from conjoin.feature_search.learning import learn_features as learn_features
    from conjoin.formats.model_files import load as load
    from conjoin.formats.model_files import save as save
    from conjoin.formats.table_files import read_table as read_table
    from conjoin.formats.table_files import write_table as write_table
    from conjoin.inference.conditions import Likelihood as Likelihood
    from conjoin.inference.conditions import Marginal as Marginal
    from conjoin.inference.conditions import Not as Not
    from conjoin.inference.conditions import OneOf as OneOf
    from conjoin.inference.conditions import Range as Range
    from conjoin.inference.engines import log_partition as log_partition
    from conjoin.inference.engines import marginals as marginals
    from conjoin.inference.engines import most_probable as most_probable
    from conjoin.inference.engines import probability as probability
    from conjoin.inference.questions import next_questions as next_questions
    from conjoin.inference.sampling import sample as sample
    from conjoin.inference.scenarios import what_if as what_if
    from conjoin.inference.surprise import surprises as surprises
    from conjoin.joint.refine import refine as refine
    from conjoin.learning.learn import learn as learn
    from conjoin.models.bayes import BayesianNetwork as BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork as DependencyNetwork
    from conjoin.models.features import Features as Features
    from conjoin.models.log_linear_cpd import LogLinearCPD as LogLinearCPD
    from conjoin.models.markov import MarkovNetwork as MarkovNetwork
    from conjoin.models.rule_cpd import RuleCPD as RuleCPD
    from conjoin.models.table_cpd import TableCPD as TableCPD
    from conjoin.models.tree_cpds import BoostedTreesCPD as BoostedTreesCPD
    from conjoin.models.tree_cpds import TreeCPD as TreeCPD
    from conjoin.reports.links import interactions as interactions
    from conjoin.scoring.pseudo_likelihood import pll as pll

_HOMES = {
    "BayesianNetwork": "models.bayes",
    "BoostedTreesCPD": "models.tree_cpds",
    "ConjoinError": "errors",
    "DependencyNetwork": "models.dependency",
    "Domain": "data.domain",
    "Features": "models.features",
    "JointModel": "estimator.joint_model",
    "Likelihood": "inference.conditions",
    "LogLinearCPD": "models.log_linear_cpd",
    "Marginal": "inference.conditions",
    "MarkovNetwork": "models.markov",
    "Not": "inference.conditions",
    "OneOf": "inference.conditions",
    "Range": "inference.conditions",
    "RuleCPD": "models.rule_cpd",
    "Table": "data.table",
    "TableCPD": "models.table_cpd",
    "TreeCPD": "models.tree_cpds",
    "Variable": "data.domain",
    "convert": "conversion.convert",
    "inconsistency": "conversion.inconsistency",
    "interactions": "reports.links",
    "learn": "learning.learn",
    "learn_features": "feature_search.learning",
    "load": "formats.model_files",
    "log_partition": "inference.engines",
    "marginals": "inference.engines",
    "most_probable": "inference.engines",
    "next_questions": "inference.questions",
    "pll": "scoring.pseudo_likelihood",
    "probability": "inference.engines",
    "read_table": "formats.table_files",
    "refine": "joint.refine",
    "sample": "inference.sampling",
    "save": "formats.model_files",
    "surprises": "inference.surprise",
    "to_bayesian_network": "bayesian.learning",
    "what_if": "inference.scenarios",
    "write_table": "formats.table_files",
}

__all__ = ["__version__", *_HOMES]

__getattr__, _ = lazy_names(
    __name__, _HOMES, ["data", "errors", "inference", "joint", "reports", "scoring"]
)


def __dir__() -> list[str]:
    return sorted(__all__)
