"""The paper's evaluation (Lowd, UAI 2012, Section 6): experiments, tables and figure."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "CMLL": "research.reproduction.published",
    "DATA_SETS": "research.reproduction.published",
    "Experiment": "research.reproduction.steps",
    "Files": "research.reproduction.experiment_files",
    "PLL": "research.reproduction.published",
    "SECONDS": "research.reproduction.published",
    "find_folder": "research.reproduction.experiment_files",
    "read_result": "research.reproduction.experiment_files",
    "read_results": "research.reproduction.steps",
    "report": "research.reproduction.paper_report",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
