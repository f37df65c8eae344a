"""Features, conditional distributions (CPDs), and the networks made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.models.bayes import BayesianNetwork as BayesianNetwork
    from conjoin.models.dependency import DependencyNetwork as DependencyNetwork
    from conjoin.models.features import Features as Features
    from conjoin.models.joint import Joint as Joint
    from conjoin.models.log_linear_cpd import LogLinearCPD as LogLinearCPD
    from conjoin.models.markov import MarkovNetwork as MarkovNetwork
    from conjoin.models.rule_cpd import RuleCPD as RuleCPD
    from conjoin.models.table_cpd import TableCPD as TableCPD
    from conjoin.models.tree_cpds import BoostedTreesCPD as BoostedTreesCPD
    from conjoin.models.tree_cpds import TreeCPD as TreeCPD

_INTERNAL = {
    "CPD": "models.cpd",
    "BoostedConditional": "models.conditional_chain",
    "ConditionalChain": "models.conditional_chain",
    "FineNumbers": "models.fine_numbers",
    "TableFactor": "models.markov",
    "Tree": "models.tree",
    "full_masks": "models.vocabulary",
    "segment_index": "models.features",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
