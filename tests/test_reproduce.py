"""The paper's evaluation as a command: resuming, checks, and the files written."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from conjoin.cli.main import main
from conjoin.research.reproduction import (
    CMLL,
    DATA_SETS,
    PLL,
    SECONDS,
    Experiment,
    read_results,
    report,
)


@pytest.fixture
def collection(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "data" / "toy"
    folder.mkdir(parents=True)
    for part, rows in (("train", 300), ("valid", 60), ("test", 50)):
        first = rng.integers(0, 2, rows)
        flips = rng.random((3, rows)) < 0.2
        codes = np.stack([first, *(first ^ flips)], axis=1)
        lines = [",".join(map(str, row)) for row in codes.tolist()]
        (folder / f"toy.{part}.data").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder, *more):
    return main(
        ["reproduce", "--data", str(folder / "data"), "--out", str(folder / "out"), "--jobs", "1",
         "--only", *(more or ("toy",))]
    )  # fmt: skip


def test_a_run_is_resumed_and_reported(collection, capsys, monkeypatch):
    done = []
    work = Experiment.do

    def watched(self, step):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(step.name)
        return work(self, step)

    monkeypatch.setattr(Experiment, "do", watched)
    assert run(collection) == 130
    monkeypatch.setattr(
        Experiment, "do", lambda self, step: (done.append(step.name), work(self, step))[1]
    )
    assert run(collection) == 0
    assert len(done) == len(set(done))  # nothing is done twice
    results = read_results(collection / "out")["toy"]
    assert set(results) == set(done)
    assert results["tree.6"]["pll"] <= 0 and results["tree.6.cmll"]["mc_stderr"] >= 0
    written = {p.name for p in (collection / "out").iterdir()}
    assert {
        "report.md",
        "sets.json",
        "figure1.svg",
        "figure1.png",
        "about.json",
    } <= written
    page = (collection / "out" / "report.md").read_text()
    assert f"{results['tree.lw']['pll']:.3f}" in page
    before = (collection / "out" / "results.json").read_bytes()
    count = len(done)
    assert run(collection) == 0 and len(done) == count
    assert (collection / "out" / "results.json").read_bytes() == before
    capsys.readouterr()


def test_missing_data_is_an_error_that_says_where_to_get_it(collection, capsys, monkeypatch):
    assert run(collection, "toy", "nowhere") == 1
    assert "nowhere.train.data" in capsys.readouterr().err
    monkeypatch.delenv("CONJOIN_DATA", raising=False)
    assert main(["reproduce", "--out", str(collection / "out")]) == 1
    assert "CONJOIN_DATA" in capsys.readouterr().err


def test_files_of_other_sizes_are_rejected(collection, capsys):
    (collection / "data" / "toy").rename(collection / "data" / "nltcs")
    for path in (collection / "data" / "nltcs").iterdir():
        path.rename(path.with_name(path.name.replace("toy", "nltcs")))
    assert run(collection, "nltcs") == 1
    assert "16,181" in capsys.readouterr().err


def test_the_published_values_are_complete():
    for table in (PLL, CMLL, SECONDS):
        assert set(table) == set(DATA_SETS) and all(len(row) == 4 for row in table.values())
    # The geometric means that the paper prints below Table 5, from its rounded seconds.
    means = np.exp(np.log(list(SECONDS.values())).mean(axis=0))
    np.testing.assert_allclose(means, [149.3, 2.5, 145.4, 0.38], rtol=0.05)


def test_a_report_of_some_steps():
    """Each score agrees if it is at most 0.02 below the paper's."""
    results = {"nltcs": {"tree.6": {"pll": -4.949, "seconds": 1.0}, "tree.lw": {"pll": -5.041}}}
    page = report(json.loads(json.dumps(results)), {})
    assert "1 of 2 scores agree" in page and "NLTCS tree LW (by 0.021)" in page


def test_the_data_of_the_paper_is_found(data, monkeypatch):
    from conjoin.research.reproduction import Files, find_folder

    monkeypatch.setenv("CONJOIN_DATA", str(data))
    assert find_folder(None) == data / "debd" == find_folder(str(data / "debd"))
    assert len(Files("nltcs", find_folder(None)).test) == 3236


def test_the_pages_are_up_to_date():
    script = Path(__file__).parent.parent / "docs" / "generate_reproduction.py"
    pages = runpy.run_path(str(script))["PAGES"]
    assert len(pages) == 1
    for path, content in pages.items():
        assert path.read_text(encoding="utf-8") == content()


@pytest.mark.parametrize("damage", [b"", b"{", b"[1, 2]", b"\xff\xfe", b"[" * 100_000])
def test_damaged_results_are_computed_again(collection, damage, capsys):
    assert run(collection) == 0
    out = collection / "out"
    before = read_results(out)["toy"]
    path = out / "results" / "toy" / "tree.6.json"
    path.write_bytes(damage)
    (out / "about.json").write_bytes(damage)
    capsys.readouterr()
    assert run(collection) == 0
    said = capsys.readouterr().err
    assert f"{path} is damaged and will be replaced" in said
    assert "Traceback" not in said
    after = read_results(out)["toy"]
    assert after["tree.6"]["pll"] == before["tree.6"]["pll"]


def test_damaged_results_of_other_data_sets_are_named(collection, capsys):
    assert run(collection) == 0
    other = collection / "out" / "results" / "other" / "tree.6.json"
    other.parent.mkdir()
    other.write_text("{")
    capsys.readouterr()
    assert run(collection) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"conjoin: {other}: is damaged; delete it, and run the same command again"
