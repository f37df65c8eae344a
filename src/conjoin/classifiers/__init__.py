"""Classifiers of scikit-learn, LightGBM and XGBoost, fitted for each variable and read as CPDs."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "indicator_columns": "classifiers.classifier_learning",
    "indicators": "classifiers.classifier_learning",
    "learn_classifiers": "classifiers.classifier_learning",
    "read_classifier": "classifiers.classifier_import",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
