"""Methods that the paper is compared with, and the reproduction of its experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.research.bayesian_learning import to_bayesian_network as to_bayesian_network
    from conjoin.research.feature_search.feature_learning import learn_features as learn_features
    from conjoin.research.pair_opinions import weighted_conversion as weighted_conversion
    from conjoin.research.say_learning import learn_say as learn_say

_INTERNAL = {
    "PairOpinions": "research.pair_opinions",
    "Say": "research.pair_opinions",
    "TreeFamily": "research.cycle_breaking",
    "acyclic_parents": "research.cycle_breaking",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
