"""`load`, `save`, `read_table`, `write_table`: the format follows the file's ending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conjoin.data.arrays import BoolArray
from conjoin.data.domain import Domain
from conjoin.data.table import Table
from conjoin.errors import FormatError
from conjoin.formats.storage import ending
from conjoin.models.bayes import BayesianNetwork
from conjoin.models.dependency import DependencyNetwork
from conjoin.models.markov import MarkovNetwork
from conjoin.models.network import Network

MODEL_ENDINGS = (".conjoin", ".dn", ".mn", ".bn", ".uai", ".bif", ".toml")
TABLE_ENDINGS = (".data", ".csv", ".parquet")


def load(path: str | Path) -> Network:
    """Read a model.

    Parameters
    ----------
    path : str or Path
        A file whose ending names its format: .conjoin, Libra's .dn, .mn and .bn, .uai, .bif, or an
        expert's .toml; each may be followed by .gz.

    Returns
    -------
    DependencyNetwork, MarkovNetwork or BayesianNetwork
    """
    path = Path(path)
    kind = ending(path)
    if kind == ".conjoin":
        from conjoin.formats.native import read_native

        return read_native(path)
    if kind in (".dn", ".mn", ".bn"):
        from conjoin.formats.libra import read_network

        return read_network(path)
    if kind == ".uai":
        from conjoin.formats.uai import read_uai

        return read_uai(path)
    if kind == ".bif":
        from conjoin.formats.bif import read_bif

        return read_bif(path)
    if kind == ".toml":
        from conjoin.formats.expert import read_expert

        return read_expert(path)
    raise FormatError(
        f"{_named(kind)} no model format; known are {', '.join(MODEL_ENDINGS)}, each also with .gz",
        str(path),
    )


def _named(kind: str) -> str:
    return f"the ending {kind!r} names" if kind else "the name has no ending: it names"


def _fitting(model_kind: type[Network], allowed: dict[str, Any]) -> list[str]:
    return [e for e, types in allowed.items() if issubclass(model_kind, types)]


def check_can_save(model_kind: type[Network], path: str | Path) -> None:
    """Raise an error now if a model of a kind could not be written to a file of that name later."""
    path = Path(path)
    kind = ending(path)
    allowed: dict[str, Any] = {
        ".conjoin": Network,
        ".dn": DependencyNetwork,
        ".mn": MarkovNetwork,
        ".bn": BayesianNetwork,
        ".uai": (MarkovNetwork, BayesianNetwork),
    }
    if kind not in allowed:
        raise FormatError(
            f"{_named(kind)} no format that models are written in; use "
            f"{', '.join(_fitting(model_kind, allowed))}",
            str(path),
        )
    if not issubclass(model_kind, allowed[kind]):
        raise FormatError(
            f"a {model_kind.kind} cannot be written as {kind}; use "
            f"{', '.join(_fitting(model_kind, allowed))}",
            str(path),
        )
    if not path.absolute().parent.is_dir():
        raise FormatError(f"there is no folder {str(path.parent)!r}; make it first", str(path))


def save(model: Network, path: str | Path) -> None:
    """Write a model, whole or not at all.

    Formats without names get them in a file beside (FILE.names.json), which `load` reads.
    """
    path = Path(path)
    check_can_save(type(model), path)
    kind = ending(path)
    if kind == ".conjoin":
        from conjoin.formats.native import write_native

        write_native(model, path)
    elif kind == ".uai":
        from conjoin.formats.uai import write_uai

        write_uai(model, path)
    else:
        from conjoin.formats.libra_writing import write_network

        write_network(model, path, kind[1:].upper())


def read_table(path: str | Path, domain: Domain | None = None) -> Table:
    """Read a table.

    Parameters
    ----------
    path : str or Path
        A .csv or .parquet file with names, or a .data file of state numbers; each may end in .gz.
    domain : Domain, optional
        The variables and states that the table must have, a model's for example.
    """
    path = Path(path)
    kind = ending(path)
    if kind == ".data":
        from conjoin.formats.data import read_data

        return read_data(path, domain)
    if kind == ".csv":
        from conjoin.formats.tabular import read_csv

        return read_csv(path, domain)
    if kind == ".parquet":
        from conjoin.formats.tabular import read_parquet

        return read_parquet(path, domain)
    raise FormatError(
        f"{_named(kind)} no table format; known are {', '.join(TABLE_ENDINGS)}, each also with .gz",
        str(path),
    )


def table_columns(path: str | Path) -> list[str] | None:
    """Return the names of the columns of a .csv or .parquet file; None for others, without names."""
    path = Path(path)
    kind = ending(path)
    if kind not in (".csv", ".parquet"):
        return None
    from conjoin.formats.tabular import csv_columns, parquet_columns

    return csv_columns(path) if kind == ".csv" else parquet_columns(path)


def check_can_write(path: str | Path) -> None:
    """Raise an error now if a table could not be written to a file of that name later."""
    path = Path(path)
    if ending(path) not in TABLE_ENDINGS:
        raise FormatError(
            f"{_named(ending(path))} no table format; known are {', '.join(TABLE_ENDINGS)}, each "
            "also with .gz",
            str(path),
        )
    if not path.absolute().parent.is_dir():
        raise FormatError(f"there is no folder {str(path.parent)!r}; make it first", str(path))


def write_table(table: Table, path: str | Path) -> None:
    """Write a table, whole or not at all, as .csv, .parquet or .data."""
    path = Path(path)
    from conjoin.formats.data import write_data
    from conjoin.formats.tabular import write_csv, write_parquet

    check_can_write(path)
    writers = {".data": write_data, ".csv": write_csv, ".parquet": write_parquet}
    writers[ending(path)](table, path)


def write_filled(source: str | Path, full: Table, holes: BoolArray, path: str | Path) -> None:
    """Write a table that was read from a file, with its holes filled.

    From CSV to CSV and from Parquet to Parquet, columns that are not variables and values that were
    there stay as they are.
    """
    from conjoin.formats.tabular import write_filled_csv, write_filled_parquet

    check_can_write(path)
    kinds = {ending(Path(source)), ending(Path(path))}
    if kinds == {".csv"}:
        write_filled_csv(Path(source), full, holes, Path(path))
    elif kinds == {".parquet"}:
        write_filled_parquet(Path(source), full, holes, Path(path))
    else:
        write_table(full, path)
