"""Conjoin: learn a joint distribution from conditionals, and ask it anything.

The names below cover the whole path from a table to an answer. More specialised functions live in the
subpackages: `conjoin.data`, `conjoin.inference`, `conjoin.joint`, `conjoin.scoring`, `conjoin.views`,
`conjoin.research`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from conjoin.conversion.closed_form import convert as convert
    from conjoin.conversion.inconsistency import inconsistency as inconsistency
    from conjoin.data.domain import Domain as Domain
    from conjoin.data.domain import Variable as Variable
    from conjoin.data.table import Table as Table
    from conjoin.errors import ConjoinError as ConjoinError
    from conjoin.estimator.joint_model import JointModel as JointModel
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
    from conjoin.joint.joint_learning import learn_joint as learn_joint
    from conjoin.joint.refinement import refine as refine
    from conjoin.learning.conditional_learning import learn_conditionals as learn_conditionals
    from conjoin.models.bayes import BayesianNetwork as BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork as DependencyNetwork
    from conjoin.models.features import Features as Features
    from conjoin.models.markov import MarkovNetwork as MarkovNetwork
    from conjoin.models.table_cpd import TableCPD as TableCPD
    from conjoin.scoring.pseudo_likelihood import pll as pll

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    subpackages=["data", "errors", "inference", "joint", "models", "research", "scoring", "views"],
)
__all__ += ["__version__"]
