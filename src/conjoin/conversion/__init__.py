"""From a dependency network to a Markov network, in closed form (the paper's Sections 4 and 5)."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "Instances": "conversion.base_distribution",
    "Product": "conversion.base_distribution",
    "SubFeatures": "conversion.sub_features",
    "decompose": "conversion.decomposition",
    "expand_orders": "conversion.sub_features",
    "resolve_orders": "conversion.orders",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
