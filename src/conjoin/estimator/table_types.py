"""The types of the columns of a user's frame, in types of JSON; nothing is executed to restore them."""

from __future__ import annotations

import re
from typing import Any

from conjoin.errors import FormatError
from conjoin.formats.json_labels import label_from_json, label_to_json

LIBRARIES = ("pandas", "polars", "pyarrow")
_POLARS = re.compile(
    r"(U?Int(8|16|32|64|128)|Float(32|64)|Boolean|String|Date|Time|Null|Categorical)$"
)


def types_to_json(empty: Any) -> tuple[str, list[Any]]:
    """Return the library of a frame without rows, and the type of each of its columns."""
    library = type(empty).__module__.split(".")[0]
    if library == "polars":
        listed = [(n, _polars_type(t)) for n, t in empty.schema.items()]
    elif library == "pyarrow":
        listed = [(field.name, _arrow_type(field.type)) for field in empty.schema]
    else:
        if library != "pandas":
            import narwhals as nw

            library, empty = "pandas", nw.from_native(empty, eager_only=True).to_pandas()
        listed = [(n, _pandas_type(t)) for n, t in empty.dtypes.items()]
    return library, [[label_to_json(name), kind] for name, kind in listed]


def _pandas_type(dtype: Any) -> dict[str, Any]:
    if str(dtype) == "category":
        categories = [label_to_json(c) for c in dtype.categories]
        return {"type": "category", "categories": categories, "ordered": bool(dtype.ordered)}
    return {"type": str(dtype)}


def _polars_type(dtype: Any) -> dict[str, Any]:
    name = type(dtype).__name__ if not isinstance(dtype, type) else dtype.__name__
    if name == "Enum":
        return {"type": "Enum", "categories": list(dtype.categories)}
    if name == "Datetime":
        return {"type": "Datetime", "unit": dtype.time_unit, "zone": dtype.time_zone}
    return {"type": name}


def _arrow_type(kind: Any) -> dict[str, Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        inner = {"index": str(kind.index_type), "ordered": bool(kind.ordered)}
        return {"type": "dictionary", "values": str(kind.value_type), **inner}
    if pa.types.is_timestamp(kind):
        return {"type": "timestamp", "unit": kind.unit, "zone": kind.tz}
    return {"type": str(kind)}


def types_from_json(library: Any, listed: Any, path: str) -> Any:
    """Return an empty frame with columns of these types."""
    if library not in LIBRARIES:
        raise FormatError(f"the file is damaged: there are no tables of {library!r}", path)
    make = {"pandas": _pandas_frame, "polars": _polars_frame, "pyarrow": _arrow_frame}[library]
    try:
        return make([(label_from_json(label), dict(kind)) for label, kind in listed])
    except Exception as error:  # each library raises its own errors
        raise FormatError(f"the file is damaged: the types of its table ({error})", path) from None


def _pandas_frame(columns: list[tuple[Any, dict[str, Any]]]) -> Any:
    import pandas as pd  # type: ignore[import-untyped]

    made = {}
    for label, kind in columns:
        dtype: Any = str(kind["type"])
        if dtype == "category":
            categories = [label_from_json(c) for c in kind["categories"]]
            dtype = pd.CategoricalDtype(categories, ordered=kind["ordered"] is True)
        made[label] = pd.Series([], dtype=dtype)
    return pd.DataFrame(made)


def _polars_frame(columns: list[tuple[Any, dict[str, Any]]]) -> Any:
    import polars as pl

    schema: dict[str, Any] = {}
    for label, kind in columns:
        name = str(kind["type"])
        if name == "Enum":
            schema[label] = pl.Enum([str(c) for c in kind["categories"]])
        elif name == "Datetime":
            schema[label] = pl.Datetime(kind["unit"], kind["zone"])
        else:
            schema[label] = getattr(pl, name) if _POLARS.match(name) else pl.Object
    return pl.DataFrame(schema=schema)


def _arrow_frame(columns: list[tuple[Any, dict[str, Any]]]) -> Any:
    import pyarrow as pa

    fields = []
    for label, kind in columns:
        name = str(kind["type"])
        if name == "dictionary":
            parts = [pa.type_for_alias(str(kind[part])) for part in ("index", "values")]
            made = pa.dictionary(*parts, ordered=kind["ordered"] is True)
        elif name == "timestamp":
            made = pa.timestamp(str(kind["unit"]), kind["zone"])
        else:
            made = pa.type_for_alias(re.sub(r"\[(day|ms)\]$", "", name) if "date" in name else name)
        fields.append(pa.field(str(label), made))
    return pa.schema(fields).empty_table()
