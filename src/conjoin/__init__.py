"""Conjoin: learn a joint distribution from conditionals, and ask it anything."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from conjoin.conversion.dn2mn import convert as convert
    from conjoin.conversion.inconsistencies import inconsistency as inconsistency
    from conjoin.data.discretize import discretize as discretize
    from conjoin.data.discretizer import Discretizer as Discretizer
    from conjoin.data.domain import Domain as Domain
    from conjoin.data.domain import Variable as Variable
    from conjoin.data.frames import as_table as as_table
    from conjoin.data.table import Table as Table
    from conjoin.errors import ConjoinError as ConjoinError
    from conjoin.errors import ConvergenceWarning as ConvergenceWarning
    from conjoin.estimator.joint_model import JointModel as JointModel
    from conjoin.formats.files import load as load
    from conjoin.formats.files import read_table as read_table
    from conjoin.formats.files import save as save
    from conjoin.formats.files import write_table as write_table
    from conjoin.inference.engines import forecast as forecast
    from conjoin.inference.engines import joint as joint
    from conjoin.inference.engines import log_partition as log_partition
    from conjoin.inference.engines import marginals as marginals
    from conjoin.inference.engines import most_probable as most_probable
    from conjoin.inference.engines import probability as probability
    from conjoin.inference.gibbs import gibbs as gibbs
    from conjoin.inference.sampling import sample as sample
    from conjoin.inference.sampling import samples as samples
    from conjoin.learning.learn import learn as learn
    from conjoin.models.bayes import BayesianNetwork as BayesianNetwork
    from conjoin.models.cpd import BoostedTreesCPD as BoostedTreesCPD
    from conjoin.models.cpd import LogLinearCPD as LogLinearCPD
    from conjoin.models.cpd import RuleCPD as RuleCPD
    from conjoin.models.cpd import TableCPD as TableCPD
    from conjoin.models.cpd import TreeCPD as TreeCPD
    from conjoin.models.dependency import DependencyNetwork as DependencyNetwork
    from conjoin.models.features import Features as Features
    from conjoin.models.markov import MarkovNetwork as MarkovNetwork
    from conjoin.reports.graph import to_networkx as to_networkx
    from conjoin.reports.page import write_report as write_report
    from conjoin.reports.picture import plot as plot
    from conjoin.scoring.cmll import cmll as cmll
    from conjoin.scoring.pll import pll as pll
    from conjoin.scoring.result import Score as Score
    from conjoin.scoring.result import compare as compare
    from conjoin.scoring.result import signed_ranks as signed_ranks
    from conjoin.scoring.strengths import interactions as interactions
    from conjoin.weights.learn import learn_weights as learn_weights
    from conjoin.weights.refine import refine as refine
    from conjoin.weights.thin import thin as thin

# Names are imported on first use, so that `import conjoin` costs next to nothing.
_HOME = {
    "BayesianNetwork": "models.bayes",
    "BoostedTreesCPD": "models.cpd",
    "ConjoinError": "errors",
    "ConvergenceWarning": "errors",
    "DependencyNetwork": "models.dependency",
    "Discretizer": "data.discretizer",
    "Domain": "data.domain",
    "Features": "models.features",
    "JointModel": "estimator.joint_model",
    "LogLinearCPD": "models.cpd",
    "MarkovNetwork": "models.markov",
    "RuleCPD": "models.cpd",
    "Score": "scoring.result",
    "Table": "data.table",
    "TableCPD": "models.cpd",
    "TreeCPD": "models.cpd",
    "Variable": "data.domain",
    "as_table": "data.frames",
    "cmll": "scoring.cmll",
    "compare": "scoring.result",
    "convert": "conversion.dn2mn",
    "discretize": "data.discretize",
    "forecast": "inference.engines",
    "gibbs": "inference.gibbs",
    "inconsistency": "conversion.inconsistencies",
    "interactions": "scoring.strengths",
    "joint": "inference.engines",
    "learn": "learning.learn",
    "learn_weights": "weights.learn",
    "load": "formats.files",
    "log_partition": "inference.engines",
    "marginals": "inference.engines",
    "most_probable": "inference.engines",
    "plot": "reports.picture",
    "pll": "scoring.pll",
    "probability": "inference.engines",
    "read_table": "formats.files",
    "refine": "weights.refine",
    "sample": "inference.sampling",
    "samples": "inference.sampling",
    "save": "formats.files",
    "signed_ranks": "scoring.result",
    "thin": "weights.thin",
    "to_networkx": "reports.graph",
    "write_report": "reports.page",
    "write_table": "formats.files",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'conjoin' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"conjoin.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
