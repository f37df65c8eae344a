"""Variables with named states, and tables of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conjoin.lazy_imports import lazy_names

if TYPE_CHECKING:
    from conjoin.data.domain import Domain as Domain
    from conjoin.data.domain import Variable as Variable
    from conjoin.data.frames import as_table as as_table
    from conjoin.data.table import Table as Table

_INTERNAL = {
    "Arithmetic": "data.rules",
    "Column": "data.columns",
    "DATE_FORMATS": "data.number_scale",
    "Determines": "data.rules",
    "MISSING": "data.frames",
    "MapChoice": "data.number_map",
    "NumberMap": "data.number_map",
    "NumberScale": "data.number_scale",
    "NumberStates": "data.number_states",
    "Order": "data.rules",
    "choose_map": "data.number_map",
    "chosen_kinds": "data.column_kinds",
    "codes_of": "data.table",
    "column_kind": "data.column_kinds",
    "columns_of": "data.frames",
    "date_format": "data.number_scale",
    "deal_out": "data.holdout",
    "find_rules": "data.rule_search",
    "group_equal": "data.row_hashing",
    "hold_out": "data.holdout",
    "joint_codes": "data.table",
    "learn_map": "data.number_map",
    "log_mass": "data.number_map",
    "merge_rows": "data.row_hashing",
    "pack_table": "data.packed_table",
    "rule_values": "data.rules",
    "rules_of": "data.rule_text",
    "sample_rows": "data.holdout",
    "with_absent_values": "data.absent_values",
    "with_telling_edges": "data.telling_edges",
    "shown": "data.labels",
    "statement": "data.labels",
    "table_of_columns": "data.columns",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
