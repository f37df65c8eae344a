"""The command line: results, messages, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from conjoin import (
    DependencyNetwork,
    Domain,
    Table,
    TableCPD,
    convert,
    load,
    write_table,
)
from conjoin.cli.main import COMMANDS, main
from conjoin.errors import DataError
from conjoin.inference import parse_conditions
from reference import all_states
from strategies import random_bayesian_network, random_dependency_network, random_markov_network
from test_libra import BACKWARDS


@pytest.fixture
def network(tmp_path):
    rng = np.random.default_rng(11)
    domain = Domain({"sky": ["sun", "rain"], "wind": [0, 1, 2], "mood": ["good", "bad"]})
    dn = random_dependency_network(rng, domain, kinds=("tree", "table"))
    dn.save(tmp_path / "model.dn")
    codes = np.stack([rng.integers(0, c, 40) for c in domain.cards], axis=1)
    table = Table(domain, codes)
    write_table(table, tmp_path / "table.csv")
    write_table(Table(domain, codes[:1]), tmp_path / "one.csv")
    write_table(Table(domain, codes[:5]), tmp_path / "five.data")
    (tmp_path / "order.txt").write_text("mood\nsky\nwind\n")
    (tmp_path / "orders.txt").write_text("mood,sky,wind\nwind,1,sky\n".replace("1", "mood"))
    (tmp_path / "numbers.txt").write_text("2,0,1\n")
    return tmp_path, dn, table


CASES = [
    ([], {}),
    (["--base", "uniform"], {"base": "uniform"}),
    (["--data", "table.csv"], {"table": True}),
    (["--data", "table.csv", "--base", "marginals"], {"table": True}),
    (["--data", "table.csv", "--base", "data"], {"table": True, "base": "data"}),
    (["--data", "table.csv", "--base", "uniform"], {"base": "uniform"}),
    (["--base", "instance", "--instance", "one.csv"], {"base": 1}),
    (["--instance", "five.data"], {"base": 5}),
    (["--orders", "single"], {"orders": "single"}),
    (["--orders", "rotations", "--no-reverse"], {"reverse": False}),
    (["--orders", "all"], {"orders": "all"}),
    (["--orders", "all", "--max-length", "3"], {"orders": "all", "max_length": 3}),
    (["--order", "order.txt"], {"order": ["mood", "sky", "wind"]}),
    (["--order", "numbers.txt"], {"order": ["mood", "sky", "wind"]}),
    (
        ["--orders", "single", "--order", "orders.txt"],
        {"orders": "single", "order": [["mood", "sky", "wind"], ["wind", "mood", "sky"]]},
    ),
]


@pytest.mark.parametrize(("arguments", "options"), CASES)
def test_convert(arguments, options, network, capsys, monkeypatch):
    folder, dn, table = network
    monkeypatch.chdir(folder)
    assert main(["convert", "model.dn", "-o", "out.mn", *arguments]) == 0
    assert "out.mn: Markov network, 3 variables" in capsys.readouterr().out
    options = dict(options)
    if options.pop("table", False):
        options["table"] = table
    if isinstance(options.get("base"), int):
        options["base"] = Table(dn.domain, table.codes[: options["base"]])
    states = all_states(dn.domain)
    got, expected = (m.log_potential(states) for m in (load("out.mn"), convert(dn, **options)))
    np.testing.assert_allclose(got - got[0], expected - expected[0], atol=1e-9)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    said = capsys.readouterr()
    assert stopped.value.code == 0 and said.err == ""
    assert said.out.startswith(f"usage: conjoin {command}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["convert", "nothing.dn", "-o", "out.mn"], "nothing.dn: there is no such file"),
        (
            ["convert", "model.dn", "-o", "out.dn"],
            "cannot be written as .dn; use .conjoin, .mn, .uai",
        ),
        (["convert", "model.dn", "-o", "out.xyz"], "'.xyz' is not the ending of a format"),
        (["convert", "model.dn", "-o", "no/out.mn"], "there is no folder 'no'"),
        (["convert", "model.dn", "-o", "out.mn", "--base", "data"], "--base data needs --data"),
        (["convert", "model.dn", "-o", "out.mn", "--base", "marginals"], "needs --data"),
        (["convert", "model.dn", "-o", "out.mn", "--base", "instance"], "needs --instance"),
        (
            ["convert", "model.dn", "-o", "out.mn", "--base", "data", "--instance", "one.csv"],
            "needs --base instance",
        ),
        (["convert", "model.dn", "-o", "out.mn", "--max-length", "3"], "needs --orders all"),
        (
            ["convert", "model.dn", "-o", "out.mn", "--orders", "all", "--max-length", "-3"],
            "must be 0 or more",
        ),
        (
            ["convert", "model.dn", "-o", "out.mn", "--data", "bad.csv"],
            "row 1, column 'sky': 'snow'",
        ),
        (["convert", "model.dn", "-o", "out.mn", "--order", "bad.txt"], "bad.txt:2: there is no"),
        (
            ["convert", "model.dn", "-o", "out.mn", "--order", "short.txt"],
            "each of the 3 variables",
        ),
        (["convert", "model.dn", "-o", "out.mn", "--order", "empty.txt"], "contains no order"),
        (["convert", "model.mn", "-o", "out.mn"], "nothing to convert"),
        (["convert", "broken.dn", "-o", "out.mn"], "broken.dn:3: "),
        (
            ["convert", "soft.conjoin", "-o", "out.mn", "--orders", "all", "--max-length", "1"],
            "off values",
        ),
        (["info", "nothing.mn"], "no such file"),
        (
            ["info", "order.txt"],
            "'.txt' is not the ending of a model or table file; use .conjoin, .dn",
        ),
        (["info", "order.txt"], ".toml, .data, .csv, .parquet, .xlsx, each also with .gz"),
        (["info", "table.csv", "--inconsistency"], "needs a dependency network"),
        (["info", "model.mn", "--inconsistency"], "needs a dependency network"),
        (
            ["sample", "model.mn", "-n", "3", "--random-state", "-1"],
            "--random-state must be 0 or more",
        ),
        (["sample", "model.mn", "-n", "3", "--seed", "-1"], "--random-state must be 0 or more"),
    ],
)
def test_mistakes_give_one_line_and_leave_nothing(arguments, message, network, capsys, monkeypatch):
    folder, dn, _ = network
    monkeypatch.chdir(folder)
    (folder / "bad.csv").write_text("sky,wind,mood\nsnow,1,good\n")
    (folder / "bad.txt").write_text("mood\nsee\nwind\n")
    (folder / "short.txt").write_text("mood\n")
    (folder / "empty.txt").write_text("\n")
    (folder / "broken.dn").write_text("2\nDN {\nv0 {")
    convert(dn).save(folder / "model.mn")
    deep = TableCPD.of(
        Domain.numbered([2, 2, 2]),
        "v0",
        ["v1", "v2"],
        {(a, b): 0.2 + 0.3 * a + 0.2 * b * (1 - a) for a in (0, 1) for b in (0, 1)},
    )
    flat = [TableCPD.of(Domain.numbered([2, 2, 2]), v, [], 0.5) for v in ("v1", "v2")]
    DependencyNetwork(Domain.numbered([2, 2, 2]), [deep, *flat]).save(folder / "soft.conjoin")
    before = sorted(p.name for p in folder.iterdir())
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("conjoin: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.parametrize("arguments", [["nonsense"], ["convert", "x.dn"], ["info"]])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: conjoin" in capsys.readouterr().err


def test_bayesian_networks_are_rewritten_exactly(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bn = random_bayesian_network(np.random.default_rng(2))
    bn.save("model.bn")
    assert main(["convert", "model.bn", "-o", "out.mn"]) == 0
    assert "factors" in capsys.readouterr().out
    states = all_states(bn.domain)
    np.testing.assert_allclose(
        load("out.mn").log_potential(states), bn.log_likelihood(states), atol=1e-9
    )


def test_info(network, capsys, monkeypatch):
    folder, _, table = network
    monkeypatch.chdir(folder)
    dn = load("model.dn")
    assert main(["info", "model.dn", "--json", "--inconsistency"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "dependency network"
    assert report["n_variables"] == 3
    assert report["variables"][1] == {"name": "wind", "states": [0, 1, 2]}
    features = dn.features()[0]
    assert report["n_features"] == len(features)
    assert sum(report["features_by_length"].values()) == len(features)
    sizes = [len(b) for b in dn.blankets()]
    assert (report["blankets"]["min"], report["blankets"]["max"]) == (min(sizes), max(sizes))
    assert report["blankets"]["mean"] == pytest.approx(np.mean(sizes))
    assert set(report["inconsistency"]["by_variable"]) == set(dn.domain.names)
    assert main(["info", "table.csv", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kind"], report["rows"], report["missing"]) == ("table", len(table), 0)
    random_markov_network(np.random.default_rng(0)).save("model.mn")
    for name in ("model.dn", "table.csv", "model.mn"):
        assert main(["info", name]) == 0
        text = capsys.readouterr().out
        assert "variables" in text
        assert len(text.splitlines()) >= 3
    assert main(["info", "model.dn", "--inconsistency"]) == 0
    assert "inconsistency" in capsys.readouterr().out


def test_internal_errors_are_one_line(network, capsys, monkeypatch):
    folder, _, _ = network
    monkeypatch.chdir(folder)
    monkeypatch.setattr("conjoin.formats.model_files.load", lambda _: 1 / 0)
    assert main(["info", "model.dn"]) == 70
    assert "internal error" in capsys.readouterr().err
    monkeypatch.setenv("CONJOIN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["info", "model.dn"])


def test_interruption(network, capsys, monkeypatch):
    folder, _, _ = network
    monkeypatch.chdir(folder)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("conjoin.formats.model_files.load", interrupt)
    assert main(["info", "model.dn"]) == 130
    assert capsys.readouterr().err == "conjoin: interrupted\n"


def test_a_closed_pipe_is_no_error(network):
    folder, _, _ = network
    process = subprocess.Popen(
        [sys.executable, "-m", "conjoin", "info", "model.dn", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()  # the reader is gone before anything is written
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_the_command_itself(network):
    folder, _, _ = network
    done = subprocess.run(
        [sys.executable, "-m", "conjoin", "convert", "nothing.dn", "-o", "x.mn"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "conjoin: nothing.dn: there is no such file\n"


@pytest.mark.parametrize(
    ("source", "result", "arguments"),
    [
        ("nltcs.tree", "nltcs.tree.v1", ["--orders", "single", "--no-reverse", "--order", "back",
                                         "--base", "instance", "--instance", "mode"]),
        ("nltcs.tree", "nltcs.tree.v2", ["--orders", "single", "--instance", "mode"]),
        ("nltcs.tree", "nltcs.tree.v3", ["--orders", "single", "--no-reverse", "--order", "back"]),
        ("nltcs.tree", "nltcs.tree.v4", ["--orders", "single"]),
        ("nltcs.tree", "nltcs.tree.v5", ["--no-reverse", "--order", "back"]),
        ("nltcs.tree", "nltcs.tree.v6u", []),
        ("nltcs.lr", "nltcs.lr.v3", ["--orders", "single", "--no-reverse", "--order", "back"]),
        ("nltcs.lr", "nltcs.lr.v4", ["--orders", "single"]),
        ("nltcs.lr", "nltcs.lr.v6", ["--orders", "rotations"]),
        ("car", "car.single", ["--orders", "single"]),
        ("car", "car.linear", []),
        ("soybean", "soybean.single", ["--orders", "single"]),
        ("soybean", "soybean.linear", []),
    ],
)  # fmt: skip
def test_libra_fixtures_from_the_command_line(source, result, arguments, libra, data, tmp_path):
    train = (
        data / "debd" / "nltcs" / "nltcs.train.data.gz"
        if source.startswith("nltcs")
        else libra / f"{source}.train.data"
    )
    (tmp_path / "back").write_text("\n".join(BACKWARDS))
    places = {"back": str(tmp_path / "back"), "mode": str(libra / "nltcs.mode.data")}
    arguments = [places.get(a, a) for a in arguments]
    if "--instance" not in arguments:
        arguments += ["--data", str(train)]
    out = tmp_path / "out.mn.gz"
    assert main(["convert", str(libra / f"{source}.dn.gz"), "-o", str(out), *arguments]) == 0
    ours, theirs = load(out), load(libra / f"{result}.mn.gz")
    rng = np.random.default_rng(1)
    states = np.stack([rng.integers(0, c, 1000) for c in ours.domain.cards], axis=1)
    difference = ours.log_potential(states) - theirs.log_potential(states)
    assert np.ptp(difference) < 2e-5


def test_true_is_true_in_any_case():
    domain = Domain({"a": [False, True], "b": ["TRUE", "maybe"]})
    assert dict(parse_conditions("a=true,b=true", domain)) == {"a": True, "b": "TRUE"}
    with pytest.raises(DataError, match="no state 'yes'"):
        parse_conditions("a=yes", domain)


def test_columns_without_values_are_left_out_with_a_warning(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a,none,b\n" + "1,,x\n2,?,y\n" * 30)
    assert main(["learn", str(path), "--closed-form", "-o", str(tmp_path / "m.conjoin")]) == 0
    said = capsys.readouterr().err
    assert "conjoin: warning: left out: 'none' (no values)" in said
    assert load(tmp_path / "m.conjoin").domain.names == ("a", "b")
