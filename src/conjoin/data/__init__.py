"""Variables with named states, and tables of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.data.discretization import discretize as discretize
    from conjoin.data.discretizer import Discretizer as Discretizer
    from conjoin.data.domain import Domain as Domain
    from conjoin.data.domain import Variable as Variable
    from conjoin.data.frames import as_table as as_table
    from conjoin.data.table import Table as Table

_HOMES = {
    "Discretizer": "data.discretizer",
    "Domain": "data.domain",
    "Table": "data.table",
    "Variable": "data.domain",
    "as_table": "data.frames",
    "discretize": "data.discretization",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
