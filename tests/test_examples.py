"""The Python examples of the pages that are no doctests run, too."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import conjoin as cj

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    if page.is_file()
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
    if ">>>" not in block and "dask" not in block  # clusters have tests of their own
]
pytestmark = pytest.mark.skipif(not BLOCKS, reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def names():
    """What the examples take for granted."""
    rng = np.random.default_rng(0)
    crime = rng.random(300) < 0.5
    frame = pd.DataFrame({
        "crime": np.where(crime, "y", "n"),
        "aid": np.where(rng.random(300) < 0.8, crime, ~crime).astype(int),
        "Class": np.where(rng.random(300) < 0.9, crime, ~crime).astype(str),
    })  # fmt: skip
    table = cj.data.as_table(frame)
    parts = [cj.Table(table.domain, codes) for codes in np.split(table.codes, 3)]
    dn = cj.learn(parts[0], "tree")
    train, valid, test = parts
    return {
        "frame": frame, "new_rows": frame.head(3).assign(aid=[None, 1, 0]), "table": table,
        "train": train, "valid": valid, "test": test, "dn": dn, "mn": cj.convert(dn, train),
    }  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS)
def test_example(block, names, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("svg")
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    names["frame"].to_csv("train.csv", index=False)
    known = dict(names)
    exec(compile(block, "example", "exec"), known)
    assert len(known) > len(names)  # it defined something
