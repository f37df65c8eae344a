"""The files of the data sets, and of results; results that are damaged are computed again."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conjoin.data import Table
from conjoin.errors import DataError, DataWarning
from conjoin.formats.storage import write_bytes
from conjoin.formats.table_files import read_table
from conjoin.research.reproduction.published import DATA_SETS

WHERE = (
    "The public collection is 'Density Estimation Benchmark Datasets', "
    "https://github.com/arranger1044/DEBD; name its folder 'datasets' with --data, or call it "
    "'debd' and name the folder that holds it in the environment variable CONJOIN_DATA"
)

Result = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Files:
    """The three tables of a data set, <folder>/<name>/<name>.{train,valid,test}.data[.gz]."""

    name: str
    folder: Path

    @cached_property
    def train(self) -> Table:
        """The training rows."""
        return self._read("train")

    @cached_property
    def valid(self) -> Table:
        """The validation rows."""
        return self._read("valid")

    @cached_property
    def test(self) -> Table:
        """The test rows."""
        return self._read("test")

    def path(self, part: str) -> Path:
        """Return the file of a part, compressed or not."""
        for end in ("", ".gz"):
            path = self.folder / self.name / f"{self.name}.{part}.data{end}"
            if path.is_file():
                return path
        raise DataError(
            f"there is no {self.name}.{part}.data under {self.folder / self.name}. {WHERE}"
        )

    def check(self) -> None:
        """Check that no file is missing."""
        for part in ("train", "valid", "test"):
            self.path(part)

    def _read(self, part: str) -> Table:
        domain = None if part == "train" else self.train.domain
        table = read_table(self.path(part), domain)
        listed = DATA_SETS.get(self.name)
        if listed is not None:
            want = (getattr(listed, part), listed.variables)
            if (len(table), len(table.domain)) != want:
                raise DataError(
                    f"{self.path(part)} has {len(table):,} rows of {len(table.domain)} variables; the "
                    f"paper's {listed.title} has {want[0]:,} of {want[1]}"
                )
        return table


def find_folder(given: str | None) -> Path:
    """Return the folder of the collection: the given one, or debd/ in the one CONJOIN_DATA names."""
    parent = os.environ.get("CONJOIN_DATA")
    if given:
        folder = Path(given)
    elif parent:
        folder = Path(parent) / "debd"
    else:
        raise DataError(f"no folder of data sets is given. {WHERE}")
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. {WHERE}")
    return folder


def read_result(path: Path) -> Result | None:
    """Return the result in a file; None if there is none, or, with a warning, if it is damaged."""
    if not path.exists():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        warnings.warn(f"{path} is damaged and will be replaced", DataWarning, stacklevel=2)
        return None


def write_result(path: Path, result: Result) -> None:
    """Write a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(result, indent=1) + "\n").encode())
