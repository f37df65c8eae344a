"""Names beside formats that have none: FILE.names.json holds the domain of FILE."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conjoin.data.domain import Domain
from conjoin.errors import FormatError
from conjoin.formats.labels import domain_from_json, domain_to_json
from conjoin.formats.storage import read_text, write_bytes


def names_path(path: Path) -> Path:
    """Return where the names of a file are kept."""
    return path.with_name(path.name + ".names.json")


def write_names(path: Path, domain: Domain) -> None:
    """Write the names beside a file, or take stale ones away where there is nothing to keep."""
    beside = names_path(path)
    if domain.is_numbered:
        beside.unlink(missing_ok=True)
    elif path.is_file() or not path.exists():
        text = json.dumps({"variables": domain_to_json(domain)}, ensure_ascii=False, indent=1)
        write_bytes(beside, text.encode() + b"\n")


def read_names(path: Path) -> Domain | None:
    """Return the domain kept beside a file, if there is one."""
    beside = names_path(path)
    if not beside.is_file():
        return None
    try:
        content = json.loads(read_text(beside))
        listed = content["variables"]
    except (ValueError, TypeError, KeyError):
        raise FormatError("is not a list of names; delete it or mend it", str(beside)) from None
    return domain_from_json(listed, str(beside))


def named_domain(path: Path, cards: npt.NDArray[np.int64]) -> Domain:
    """Return the domain of a file without names: from its neighbour, else numbered."""
    domain = read_names(path)
    if domain is None:
        return Domain.numbered(cards)
    if not np.array_equal(domain.cards, cards):
        raise FormatError(
            f"has other variables than {path.name}; delete it if it is out of date",
            str(names_path(path)),
        )
    return domain
