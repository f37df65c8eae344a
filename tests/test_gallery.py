"""The scripts of the gallery run, and draw the pictures of the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
SCRIPTS = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "pictures")
pytestmark = pytest.mark.skipif(not SCRIPTS, reason="the documentation is not beside the tests")
EXPECTED = {
    "simpson": "75% of the patients of A had large stones",
    "diagnosis": "ask for fever",
    "customers": "with a hidden column",
    "measurements": "error of the filled-in values",
    "typing_errors": "have a planted error",
    "digits": "of the hidden pixels are right",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_example(name, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
    drawn = (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn.count("<path") > 5
    assert (FOLDER / f"{name}.svg").is_file()


def test_every_example_is_in_the_gallery():
    page = (FOLDER.parent / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in SCRIPTS if f"<!-- example: {name} -->" not in page] == []
