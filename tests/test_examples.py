"""The Python examples of the pages that are not doctests run, too, and print what the pages show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import conjoin as cj

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
NUMBER = r"[-+]?\d+(?:\.\d+)?"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    if page.is_file() and page != TUTORIAL
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
        "species": np.where(rng.random(300) < 0.7, np.where(crime, "Adelie", "Gentoo"), "Chinstrap"),
    })  # fmt: skip
    table = cj.data.as_table(frame)
    parts = [cj.Table(table.domain, codes) for codes in np.split(table.codes, 3)]
    dn = cj.learn_conditionals(parts[0], "tree")
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


@pytest.mark.skipif(not TUTORIAL.is_file(), reason="the documentation is not beside the tests")
def test_the_tutorial(tmp_path, monkeypatch):
    """Every example prints what the page shows; numbers may differ by a fifth."""
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    page = TUTORIAL.read_text(encoding="utf-8")
    known: dict[str, object] = {}
    for code, expected in re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page, re.DOTALL
    ):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "tutorial", "exec"), known)
        got = printed.getvalue()
        assert re.sub(NUMBER, "#", got).split() == re.sub(NUMBER, "#", expected).split()
        np.testing.assert_allclose(
            [float(text) for text in re.findall(NUMBER, got)],
            [float(text) for text in re.findall(NUMBER, expected)],
            rtol=0.2, atol=1,
        )  # fmt: skip
