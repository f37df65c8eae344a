"""Readers and writers, one module per format; `model_files` and `table_files` choose by the ending."""

from __future__ import annotations

from conjoin.lazy_imports import lazy_names

_INTERNAL = {
    "Blocks": "formats.csv_tables",
    "LIMITS": "formats.storage",
    "PREFIX": "formats.storage",
    "ending": "formats.storage",
    "folder_sample": "formats.parquet",
    "folder_table": "formats.parquet",
    "plain_float": "formats.storage",
    "read_bytes": "formats.storage",
    "read_csv": "formats.csv_tables",
    "read_evidence": "formats.uai",
    "read_schema": "formats.libra_reading",
    "safe_domain": "formats.bif_writing",
    "safe_words": "formats.bif_writing",
    "write_bytes": "formats.storage",
    "write_filled": "formats.table_files",
}
"""Names for the other packages of Conjoin, and for its tests."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _INTERNAL)
