"""The paper's evaluation as a command: resuming, checks, and the files written."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from conjoin.cli.main import main
from conjoin.errors import ModelError
from conjoin.reproduction.comparison import MIXTURE, TITLES, compare_methods
from conjoin.reproduction.methods import METHODS, Method
from conjoin.reproduction.methods_report import methods_report, neighbours
from conjoin.reproduction.published import CMLL, DATA_SETS, PLL, SECONDS
from conjoin.reproduction.report import report
from conjoin.reproduction.run import read_results
from conjoin.reproduction.steps import Experiment
from conjoin.reproduction.stored_results import read_result


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
    assert results["tree.6"]["pll"] <= 0 and results["hybrid.6.cmll"]["mc_stderr"] >= 0
    written = {p.name for p in (collection / "out").iterdir()}
    assert {
        "report.md",
        "summary.csv",
        "sets.json",
        "figure1.svg",
        "figure1.png",
        "about.json",
    } <= written
    page = (collection / "out" / "report.md").read_text()
    assert f"{results['tree.lw']['pll']:.3f}" in page
    before = (collection / "out" / "summary.csv").read_bytes()
    count = len(done)
    assert run(collection) == 0 and len(done) == count
    assert (collection / "out" / "summary.csv").read_bytes() == before
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
    from conjoin.reproduction.data import Files, find_folder

    monkeypatch.setenv("CONJOIN_DATA", str(data))
    assert find_folder(None) == data / "debd" == find_folder(str(data / "debd"))
    assert len(Files("nltcs", find_folder(None)).test) == 3236


def test_the_pages_are_up_to_date():
    script = Path(__file__).parent.parent / "docs" / "generate_reproduction.py"
    pages = runpy.run_path(str(script))["PAGES"]
    assert len(pages) == 2
    for path, content in pages.items():
        assert path.read_text(encoding="utf-8") == content()


def test_likelihoods_are_resumed_and_tabulated(collection, capsys):
    words = ["toy", "--likelihood", "--seeds"]
    assert run(collection, *words, "1") == 0
    first = capsys.readouterr().err
    assert "toy, trees" in first and "toy, default.0" in first
    assert run(collection, *words, "2") == 0
    second = capsys.readouterr().err
    assert "trees" not in second and "default.0" not in second and "toy, default.1" in second
    folder = collection / "out" / "likelihood"
    results = [json.loads((folder / f"toy.default.{seed}.json").read_text()) for seed in (0, 1)]
    trees = json.loads((folder / "toy.trees.json").read_text())
    assert all(result["ll"] <= 0 for result in results) and trees["tree_mixture_components"] >= 2
    table = (collection / "out" / "likelihood.md").read_text().splitlines()
    assert len(table) == 3 and all(line.count("|") == 13 for line in table)
    mean = np.mean([result["ll"] for result in results])
    assert f"| {trees['tree']:.2f} | {trees['tree_mixture']:.2f} |" in table[2]
    assert f"| **{mean:.2f}** |" in table[2]
    assert run(collection, *words, "0") == 1
    assert "--seeds must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1, 2]", b'{"pll": "x"}', b"\xff\xfe", b"[" * 100_000]
)
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


def test_all_methods_are_compared(collection, capsys):
    """Every method learns and scores; nothing is done twice, and damaged results are done again."""
    assert run(collection, "toy", "--methods", "--limit", "0") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(TITLES) and lines[0].startswith(f"[1/{len(TITLES)}] toy: ")
    results = json.loads((collection / "out" / "methods.json").read_text())["toy"]
    assert list(results) == list(TITLES)
    for method, result in results.items():
        assert result["finished"] and result["ll"] < 0 and result["size"] > 0, method
        if method != MIXTURE:
            assert result["pll"] < 0 and result["cmll"] < 0 and result["ll"] <= result["pll"]
    page = (collection / "out" / "methods.md").read_text()
    assert f"{results['tree']['pll']:.2f}" in page and "The neighbours, run again" in page

    folder = collection / "out" / "methods" / "toy"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "tree.json").write_text('{"pll": -1')
    (folder / "joint.json").unlink()
    assert run(collection, "toy", "--methods", "--limit", "0") == 0
    said = capsys.readouterr().err
    assert "tree.json is damaged" in said
    again = {line.split(": ")[1] for line in said.splitlines() if line.startswith("[")}
    assert again == {TITLES["tree"], TITLES["joint"]}
    for name in ("tree", "joint"):
        old, new = json.loads(before[f"{name}.json"]), read_result(folder / f"{name}.json")
        assert old["pll"] == new["pll"] and old["ll"] == new["ll"]


def test_methods_are_stopped_at_the_limit_and_resumed(collection):
    done = []
    options = {"methods": ("tree", "dependence-tree"), "report_progress": done.append}
    folder, out = collection / "data", collection / "out"

    def compare(limit):
        done.clear()
        return compare_methods(folder, out, ["toy"], limit=limit, **options)["toy"]

    stopped = compare(1e-4)
    assert len(done) == 2
    assert all(r["stopped_after"] == 1e-4 and "finished" not in r for r in stopped.values())
    assert "> 0 s" in methods_report({"toy": stopped})
    assert compare(1e-4) == stopped and not done  # the same limit would stop them again
    finished = compare(300.0)
    assert len(done) == 2 and all(r["finished"] for r in finished.values())
    assert compare(300.0) == finished and not done


def test_a_method_that_fails_says_why_and_is_tried_again(collection, monkeypatch):
    def fail(_):
        raise ModelError("too many columns")

    folder, out = collection / "data", collection / "out"
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "tree", Method("trees", 1, fail))
        failed = compare_methods(folder, out, ["toy"], methods=("tree",), limit=0)["toy"]["tree"]
    assert failed["failed"] == "ModelError: too many columns"
    assert "| failed |" in methods_report({"toy": {"tree": failed}})
    again = compare_methods(folder, out, ["toy"], methods=("tree",), limit=0)["toy"]["tree"]
    assert again["finished"] and "failed" not in again


def test_neighbours_are_counted():
    """Wins, the mean difference and the ratio of times, from results that are easy to count."""
    results = {
        f"set{k}": {
            "bayesian.published": {"pll": -2.0 - k, "seconds": 4.0},
            "tree": {"pll": -1.0, "seconds": 2.0},
        }
        for k in range(2)
    }
    lines = [line for line in neighbours(results).splitlines() if "Hulten" in line]
    assert len(lines) == 1 and "better on 0 of 2, mean -1.50" in lines[0] and "× 2 " in lines[0]


def test_options_of_methods_are_checked(collection, capsys):
    for words, message in [
        (["--methods", "--likelihood"], "cannot be combined"),
        (["--limit", "5"], "--limit needs --methods"),
        (["--methods", "--limit", "-1"], "not negative"),
    ]:
        assert run(collection, "toy", *words) == 1
        assert message in capsys.readouterr().err
