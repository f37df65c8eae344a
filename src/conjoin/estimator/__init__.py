"""The scikit-learn estimator: a joint distribution of the columns of a table."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "explain_row": "estimator.explain",
    "imputed_codes": "estimator.answers",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
