"""The files of the data sets: find them, and check that they are the paper's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from conjoin.data.table import Table
from conjoin.errors import DataError
from conjoin.formats.table_files import read_table
from conjoin.reproduction.published import DATA_SETS

WHERE = (
    "The public collection is 'Density Estimation Benchmark Datasets', "
    "https://github.com/arranger1044/DEBD; name its folder 'datasets' with --data, or call it "
    "'debd' and name the folder that holds it in the environment variable CONJOIN_DATA"
)


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
