"""From a table to a dependency network: one CPD per variable (the paper's Sections 3 and 6.2)."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "Boosting": "learning.boosted_conditional",
    "CodedRows": "learning.boosted_conditional",
    "FORBIDDEN": "data.parent_rules",
    "KAPPAS": "learning.options",
    "LAMBDAS": "learning.options",
    "LIMITS": "learning.options",
    "Limits": "learning.options",
    "LogisticPath": "learning.logistic_path",
    "NestedTree": "learning.tree_path",
    "Options": "learning.options",
    "REQUIRED": "data.parent_rules",
    "SetIndex": "learning.tree_path",
    "TreePath": "learning.tree_path",
    "learn_boosted_conditional": "learning.boosted_conditional",
    "gain_needed": "learning.tree_path",
    "parent_rules": "data.parent_rules",
    "state_ranks": "learning.boosted_conditional",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
