"""A fitted `JointModel` in a .conjoin file: its parameters, and the types of the training table.

Nothing in such a file is executed when it is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conjoin.errors import FormatError
from conjoin.estimator.encoding import Encoding
from conjoin.estimator.table_types import types_from_json, types_to_json
from conjoin.formats.json_labels import (
    domain_from_json,
    domain_to_json,
    label_from_json,
    label_to_json,
)
from conjoin.formats.model_files import check_can_save
from conjoin.formats.native import read_estimator, write_native
from conjoin.formats.storage import ending
from conjoin.models.joint import Joint


def save_estimator(model: Any, path: Path) -> None:
    """Write a fitted `JointModel` to a .conjoin file."""
    if ending(path) != ".conjoin":
        raise FormatError(
            "a JointModel is written as .conjoin; use `conjoin.save(model.model_, path)` for the "
            "network alone",
            str(path),
        )
    check_can_save(type(model.model_), path)
    estimator = {
        "parameters": parameters_to_json(model.get_params(deep=False)),
        "encoding": encoding_to_json(model.encoding_),
        "rows": model.n_rows_,
        "seed": model.seed_,
    }
    write_native(model.model_, path, estimator, model.network_)


def load_estimator(kind: Any, path: Path) -> Any:
    """Read a fitted `JointModel`, an object of the class `kind`."""
    model, entry, conditionals = read_estimator(path)
    if entry is None:
        return _of_network(kind, model, str(path))
    try:
        known = kind().get_params(deep=False)
        given = {k: v for k, v in entry["parameters"].items() if k in known}
        given |= {k: tuple(v) for k, v in given.items() if type(v) is list and known[k] == ()}
        own = kind(**given)
        own.encoding_ = encoding_from_json(entry["encoding"], str(path))
        own.seed_ = int(entry["seed"])
        own._settle(int(entry["rows"]))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"the file is damaged: {error}", str(path)) from None
    own.model_, own.network_ = model, conditionals
    if not isinstance(model, Joint) or model.domain.observed != own.domain_:
        raise FormatError("the file is damaged: its columns are not those of its model", str(path))
    return own


def _of_network(kind: Any, model: Any, path: str) -> Any:
    """Return an estimator of a joint that `conjoin learn` has written; types of tables are not known."""
    if not isinstance(model, Joint):
        said = f"holds a {model.kind}, and no joint distribution that was learned from a table"
        raise FormatError(f"{said}; read it with `conjoin.load`", path)
    own, domain = kind(), model.domain.observed
    labels = {name: name for name in domain.names}
    own.encoding_ = Encoding(domain, labels=labels, sources=domain.names)
    own.model_, own.network_, own.seed_ = model, None, 0
    learned = model.provenance.get("learned", {})
    own._settle(int(learned.get("rows", 0)) if isinstance(learned, Mapping) else 0)
    return own


def encoding_to_json(encoding: Encoding) -> dict[str, Any]:
    """Return an encoding in types of JSON."""
    library: str = "table"
    types: Any = ""
    if encoding.empty is not None:
        library, types = types_to_json(encoding.empty)
    elif encoding.dtype is not None:
        library, types = "array", encoding.dtype.str
    return {
        "domain": domain_to_json(encoding.domain),
        "unseen": encoding.unseen,
        "labels": [[name, label_to_json(label)] for name, label in encoding.labels.items()],
        "sources": list(encoding.sources),
        "target": encoding.target,
        "library": library,
        "types": types,
    }


def encoding_from_json(entry: Any, path: str) -> Encoding:
    """Undo `encoding_to_json`."""
    if entry["unseen"] not in ("error", "missing"):
        raise FormatError("the file is damaged: there is no such way to treat new values", path)
    empty, dtype = _table_from_json(entry["library"], entry["types"], path)
    labels = {str(name): label_from_json(label) for name, label in entry["labels"]}
    domain = domain_from_json(entry["domain"], path)
    sources = tuple(map(str, entry["sources"]))
    return Encoding(domain, empty, dtype, entry["unseen"], labels, sources, entry["target"])


def _table_from_json(library: Any, types: Any, path: str) -> tuple[Any, Any]:
    """Return an empty frame and None, or None and the type of an array."""
    if library == "table":
        return None, None
    if library == "array":
        dtype = np.dtype(str(types))
        if dtype.kind not in "iufbOSU":
            raise FormatError(f"the file is damaged: arrays of type {types!r} are not used", path)
        return None, dtype
    return types_from_json(library, types, path), None


def parameters_to_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator that JSON can hold; those that it cannot are left out."""
    kept = {}
    for name, value in parameters.items():
        plain = list(value) if isinstance(value, tuple | set | frozenset) else value
        if _is_json(plain):
            kept[name] = plain
    return kept


def _is_json(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False
