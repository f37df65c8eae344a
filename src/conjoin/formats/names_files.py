"""Names for formats that have none: FILE.names.json holds the domain of FILE."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conjoin.data.arrays import distinct
from conjoin.data.domain import Domain
from conjoin.errors import FormatError
from conjoin.formats.json_labels import domain_from_json, domain_to_json
from conjoin.formats.storage import MAX_NUMBERED_STATES, read_text, write_bytes


def names_path(path: Path) -> Path:
    """Return the path of the file that holds the names of another."""
    return path.with_name(path.name + ".names.json")


def write_named(path: Path, data: bytes, domain: Domain, implied: Domain | None = None) -> None:
    """Write a file and, unless a reader would give it the domain `implied`, its names beside it."""
    beside = names_path(path)
    plain = domain.is_numbered if implied is None else domain == implied
    needed = not plain or bool(domain.numeric)
    text = ""
    if needed:  # labels are checked before anything is written
        text = json.dumps({"variables": domain_to_json(domain)}, ensure_ascii=False, indent=1)
    write_bytes(path, data)
    if needed and path.is_file():
        write_bytes(beside, text.encode() + b"\n")
    else:
        beside.unlink(missing_ok=True)


def read_names(path: Path) -> Domain | None:
    """Return the domain kept beside a file, if there is one."""
    beside = names_path(path)
    if not beside.is_file():
        return None
    try:
        content = json.loads(read_text(beside))
        listed = content["variables"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise FormatError("is not a list of names; delete it or correct it", str(beside)) from None
    return domain_from_json(listed, str(beside))


def numbered_domain(path: Path, cards: npt.NDArray[np.int64]) -> Domain:
    """Return a numbered domain; a few large numbers in a file must not cost much memory."""
    total = int(distinct(cards).sum())  # variables with the same number of states share them
    if total > MAX_NUMBERED_STATES.value:
        raise FormatError(
            f"its variables have {total:,} states; {MAX_NUMBERED_STATES.exceeded()}", str(path)
        )
    return Domain.numbered(cards)


def named_domain(path: Path, cards: npt.NDArray[np.int64]) -> Domain:
    """Return the domain of a file without names: from the file beside it, or else numbered."""
    domain = read_names(path)
    if domain is None:
        return numbered_domain(path, cards)
    if not np.array_equal(domain.cards, cards):
        raise FormatError(
            f"does not have the variables of {path.name}; delete it if it is outdated",
            str(names_path(path)),
        )
    return domain
