"""The command line, and files, with tables of numbers and dates."""

from __future__ import annotations

import datetime
import json
import re

import numpy as np
import pandas as pd
import pytest

from conjoin import (
    ConjoinError,
    JointModel,
    Range,
    Table,
    load,
    marginals,
    next_questions,
    probability,
    read_table,
    sample,
    save,
    what_if,
)
from conjoin.cli.main import main
from conjoin.errors import DataError, DataWarning, FormatError
from conjoin.inference import JointRows, evidence_of
from conjoin.models import Joint


def people(rows=400):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, rows)
    born = np.datetime64("2024-06-30") - age * 365 - rng.integers(0, 3000, rows)
    return pd.DataFrame({
        "id": np.arange(rows),
        "old": np.where(age + rng.normal(0, 9, rows) > 50, "yes", "None"),
        "age": age,
        "debt": np.where(rng.random(rows) < 0.5, 0, rng.normal(2000 + 30 * age, 300)).round(2),
        "born": born.astype(str),
    })  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("numbers")
    people().to_csv(place / "t.csv", index=False)
    command = ["learn", str(place / "t.csv"), "-o", str(place / "m.conjoin")]
    assert main([*command, "--effort", "quick", "--missing", "?"]) == 0
    return place


def test_a_model_with_numbers_survives_a_file(folder, tmp_path, capsys):
    model = load(folder / "m.conjoin")
    assert isinstance(model, Joint) and model.domain.numeric == ("age", "debt", "born")
    assert model.domain["old"].states == ("None", "yes")
    rows = read_table(folder / "t.csv", model.domain)
    save(model, tmp_path / "again.conjoin")
    assert (tmp_path / "again.conjoin").read_bytes() == (folder / "m.conjoin").read_bytes()
    again = load(tmp_path / "again.conjoin")
    assert again.domain == model.domain and dict(again.provenance) == dict(model.provenance)
    first, second = (JointRows(m, rows).log_density() for m in (again, model))
    np.testing.assert_array_equal(first, second)
    capsys.readouterr()


def test_damaged_files_of_joints(folder, tmp_path):
    """Whatever happens to the bytes: one clear error, or a model."""
    raw = (folder / "m.conjoin").read_bytes()
    rng = np.random.default_rng(0)
    bad = tmp_path / "bad.conjoin"
    end = int.from_bytes(raw[8:16], "little") + 16
    for trial in range(150):
        data = bytearray(raw)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(16, end if trial % 2 else len(raw)))
            data[at] = int(rng.integers(256))
        if trial % 5 == 0:
            data = data[: int(rng.integers(len(raw)))]
        bad.write_bytes(data)
        try:
            load(bad)
        except FormatError as error:
            assert str(bad) in str(error)
        except ConjoinError as error:
            pytest.fail(f"an error without a place: {error}")


def test_query_prints_numbers(folder, capsys):
    model = str(folder / "m.conjoin")
    assert main(["query", model, "--given", "age=30", "--target", "debt", "--target", "old"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Probabilities given age=30 (exact)"
    assert said[1].startswith("debt  mean ") and "90% between 0 and " in said[1]
    assert "█" in said[2]
    assert said[3].startswith("old   None 0.")
    assert main(["query", model, "--given", "old=None,born=1980-01-31", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["marginals"]) == {"age", "debt"}
    domain = load(model).domain
    day = domain.scale("born").number("1980-01-31")
    codes, numbers = np.full((1, len(domain)), -1), np.full((1, 3), np.nan)
    codes[0, domain.index("old")], numbers[0, domain.numeric.index("born")] = 0, day
    want = JointRows(load(model), Table.of_values(domain, codes, numbers)).number("age")
    assert report["marginals"]["age"]["mean"] == pytest.approx(want.mean()[0])
    assert report["marginals"]["age"]["quantiles"]["0.95"] == want.quantile(0.95)[0]
    assert main(["query", model, "--map", "--given", "old=yes"]) == 0
    assert "old   yes  (given)" in capsys.readouterr().out
    for wrong in (
        ["--joint", "agee"],
        ["--next", "agee"],
        ["--given", "agee=3"],
        ["--target", "agee"],
        ["--given", "age=x"],
    ):
        assert main(["query", model, *wrong]) == 1
        assert capsys.readouterr().err.startswith("conjoin: ")


def test_evidence_files_with_numbers(folder, tmp_path, capsys):
    model, path = load(folder / "m.conjoin"), tmp_path / "e.evid"
    age, old, born = map(model.domain.index, ("age", "old", "born"))
    path.write_text(f"3 {age} 30 {old} 1 {born} 1994-02-01\n")
    asked = ["query", str(folder / "m.conjoin"), "--evidence", str(path)]
    assert main([*asked, "--target", "debt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["marginals"]["debt"]["mean"]
    want = marginals(model, "age=30, old=yes, born=1994-02-01")["debt"].mean()
    assert found == pytest.approx(want, rel=1e-9)
    assert main([*asked, "--task", "MAP"]) == 0
    codes = list(map(int, capsys.readouterr().out.split()[2:]))
    states = [model.domain["age"].index(30), 1, model.domain["born"].index("1994-02-01")]
    assert [codes[age], codes[old], codes[born]] == states
    for wrong, words in [
        (f"1 {age} x", "'x' is not a number"),
        (f"1 {born} 1994-13-01", "'1994-13-01' is not a date"),
        (f"1 {old} 2", "expected a state of variable"),
        ("1 9 0", "expected a variable, 0 to 3"),
    ]:
        path.write_text(wrong)
        assert main(asked) == 1
        said = capsys.readouterr().err
        assert words in said and f"{path}:1" in said


def test_conditions_on_numbers(folder):
    domain = load(folder / "m.conjoin").domain
    known = evidence_of(domain, "age=30, old=yes, debt=0")
    assert known.given == {"old": "yes", "age": 30, "debt": 0}
    assert known.values == {domain.index("age"): 30, domain.index("debt"): 0}
    with pytest.raises(DataError, match="'age' is given twice"):
        evidence_of(domain, "age=30, age=31")
    assert evidence_of(domain, "age > 30").given == {"age": Range(above=30)}


def test_impute_writes_numbers(folder, tmp_path, capsys):
    holes = tmp_path / "holes.csv"
    holes.write_text(
        'id,old,age,debt,born\nx,"None",?,0,\n"y",?,70,?,1950-01-01\n', encoding="utf-8"
    )
    out = tmp_path / "full.csv"
    command = ["impute", str(folder / "m.conjoin"), str(holes), "-o", str(out), "--missing", "?"]
    for extra in ([], ["--draw"], ["--numbers", "median"]):
        assert main([*command, *extra]) == 0
        header, one, two = (
            line.split(",") for line in out.read_text(encoding="utf-8").splitlines()
        )
        assert header == ["id", "old", "age", "debt", "born"]
        assert (one[0], one[1], one[3]) == ("x", '"None"', "0")
        assert one[2].isdigit() and pd.Timestamp(one[4])
        assert two[0] == '"y"' and two[1] in ("yes", '"None"') and float(two[3]) is not None
    assert "4 values filled in 2 of them" in capsys.readouterr().out


def test_sample_and_predict_write_numbers(folder, tmp_path, capsys):
    model, out = str(folder / "m.conjoin"), tmp_path / "s.csv"
    assert main(["sample", model, "-n", "30", "-o", str(out), "--given", "old=yes"]) == 0
    drawn = read_table(out, load(model).domain)
    assert len(drawn) == 30 and not drawn.holes.any()
    assert (drawn.numbers == np.rint(drawn.numbers * 100) / 100).all()
    said = capsys.readouterr()
    assert "drawn exactly" in said.out and said.err == ""
    assert main(["sample", model, "-n", "3", "-o", str(out), "--given", "age > 40"]) == 0
    said = capsys.readouterr()
    assert "3 rows drawn exactly" in said.out and said.err == ""
    assert (read_table(out, load(model).domain).column("age") > 40).all()
    assert main(["predict", model, str(folder / "t.csv"), "--target", "age"]) == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["age", "quantile 0.05", "quantile 0.5", "quantile 0.95"]
    found = np.array(lines[1:], float)
    truth = people()["age"].to_numpy()
    assert ((truth >= found[:, 1]) & (truth <= found[:, 3])).mean() > 0.8
    assert np.corrcoef(found[:, 0], truth)[0, 1] > 0.8
    assert main(["predict", model, str(folder / "t.csv"), "--target", "old", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["states"] == ["None", "yes"] and set(report["predicted"]) == {"None", "yes"}
    rows = JointRows(load(model), read_table(folder / "t.csv", load(model).domain))
    np.testing.assert_allclose(report["probabilities"], rows.states("old"), rtol=0, atol=1e-12)
    assert main(["predict", model, str(folder / "t.csv"), "--target", "age", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["columns"]
    assert {type(x) for x in report["age"]} == {float}  # means; quantiles are whole numbers
    assert {type(x) for x in report["quantile 0.95"]} == {int}
    np.testing.assert_allclose(report["age"], found[:, 0], rtol=1e-5)
    np.testing.assert_allclose(report["age"], rows.number("age").mean(), rtol=1e-12)
    assert report["quantile 0.05"] == found[:, 1].tolist()
    assert main(["predict", model, str(folder / "t.csv"), "--target", "born", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["columns"]
    assert all(datetime.date.fromisoformat(x) for x in report["born"] + report["quantile 0.5"])
    assert main(["score", model, str(folder / "t.csv"), "--metric", "ll", "--missing", "?"]) == 0
    assert "nats per row (a log density), " in capsys.readouterr().out
    assert main(["score", model, str(folder / "t.csv"), "--missing", "?", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["by_variable"]) == {"old", "age", "debt", "born"} and report["rows"] == 400
    assert main(["info", model]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\n  variables +4, 3 of them numbers or dates\n", said)
    assert re.search(r"\n  age +number +18 to 89, in steps of 1\n", said)
    assert re.search(r"\n  old +category +2 states: ", said)
    assert main(["info", str(folder / "t.csv"), "--missing", "?"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"\n  born +date +\d+% +\d{4}-", said)


@pytest.fixture(scope="module")
def offset(tmp_path_factory):
    """A table with a number whose spread is small and whose offset is not, and its model."""
    place = tmp_path_factory.mktemp("offset")
    x = 1_000_000 + np.random.default_rng(0).integers(0, 9000, 80) / 100
    rows = [f"{v:.2f},{'low' if v < 1_000_045 else 'high'}" for v in x.tolist()]
    (place / "t.csv").write_text("x,side\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ["learn", str(place / "t.csv"), "-o", str(place / "m.conjoin"), "--effort", "quick"]
    assert main(command) == 0
    return place


def test_numbers_with_a_large_offset_have_enough_digits(offset, capsys):
    model, table = str(offset / "m.conjoin"), str(offset / "t.csv")
    capsys.readouterr()
    assert main(["query", model, "--target", "x", "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)["marginals"]["x"]["mean"]
    assert main(["query", model, "--target", "x"]) == 0
    said = capsys.readouterr().out
    mean, low, high, median = map(float, re.findall(r"\b1\d{6}(?:\.\d+)?\b", said)[:4])
    assert abs(mean - exact) < 0.1 and low < median < high and low < mean < high
    assert main(["predict", model, table, "--target", "x"]) == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    means = load(model), read_table(table, load(model).domain)
    wanted = JointRows(*means).number("x").mean()
    np.testing.assert_allclose(np.array(lines, float)[:, 0], wanted, rtol=0, atol=5e-5)
    assert len({line[0] for line in lines}) == 2 and "e" not in lines[0][0]
    assert main(["info", model]) == 0
    assert re.search(r"x +number +1000000\.\d+ to 1000089\.\d+, in steps", capsys.readouterr().out)


def test_a_table_with_the_target_alone_gets_the_marginal(offset, tmp_path, capsys):
    model, table = str(offset / "m.conjoin"), tmp_path / "x.csv"
    table.write_text("x\n1000012.5\n1000080\n", encoding="utf-8")
    assert main(["predict", model, str(table), "--target", "x"]) == 0
    said = capsys.readouterr()
    _, first, second = said.out.splitlines()
    assert first == second and "no column of the model but the target 'x'" in said.err
    mean = marginals(load(model), targets=["x"])["x"].mean()
    assert float(first.split(",")[0]) == pytest.approx(mean, abs=1e-4)
    table.write_text("side\nlow\nwho knows\n", encoding="utf-8")
    assert main(["predict", model, str(table), "--target", "side"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first == second
    table.write_text("y\n1\n", encoding="utf-8")
    assert main(["predict", model, str(table), "--target", "x"]) == 1
    assert "has none of the columns of the model: x, side\n" in capsys.readouterr().err


def test_impute_keeps_values_that_the_model_does_not_know(folder, tmp_path, capsys):
    model, table, out = str(folder / "m.conjoin"), tmp_path / "t.csv", tmp_path / "out.csv"
    table.write_text("age,old,more\n30,perhaps,1\n,yes,2\nold,,3\n", encoding="utf-8")
    command = ["impute", model, str(table), "-o", str(out)]
    assert main(command) == 1
    capsys.readouterr()
    assert main([*command, "--unseen", "missing"]) == 0
    assert "2 values filled in 2 of them" in capsys.readouterr().out
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["age,old,more", "30,perhaps,1"]
    assert re.fullmatch(r"\d+,yes,2", lines[2]) and re.fullmatch(r'old,("None"|yes),3', lines[3])
    command[-1] = str(tmp_path / "out.parquet")
    assert main([*command, "--unseen", "missing"]) == 1
    assert "only a table of the same format can keep them" in capsys.readouterr().err


def test_other_formats_hold_states(folder, tmp_path, capsys):
    table, out = str(folder / "t.csv"), str(tmp_path / "m.mn")
    assert main(["learn", table, "-o", out, "--cpd", "tree", "--exclude", "id"]) == 0
    assert "only .conjoin also holds" in capsys.readouterr().err
    assert load(out).domain.numeric == ("age", "debt", "born")
    native = str(tmp_path / "m.conjoin")
    command = ["learn", table, "-o", native, "--exclude", "id", "--effort", "quick"]
    for more in (["--cpd", "tree"], ["--closed-form"]):
        assert main([*command, *more]) == 0
        assert capsys.readouterr().err == ""
        assert sorted(load(native).fine.names) == ["age", "born", "debt"]
    assert main(["convert", str(folder / "m.conjoin"), "-o", out]) == 1
    assert "nothing to convert" in capsys.readouterr().err


def test_evidence_far_outside_is_one_line_on_standard_error(folder, tmp_path, capsys):
    model, table = str(folder / "m.conjoin"), tmp_path / "far.csv"
    table.write_text("age,old\n17,yes\n400,\n300,\n400,\n", encoding="utf-8")
    seen = "the values that the model has seen (18 to 89): only that it is at that end counts\n"
    one, two = (
        f"conjoin: warning: age=400{more} is far outside {seen}"
        for more in ("", " (and 1 other value)")
    )
    given = ["--given", "age=400"]
    for command, said in {
        ("query", model, *given, "--target", "old"): one,
        ("query", model, *given, "--probability", "old=yes"): one,
        ("sample", model, "-n", "3", "-o", str(tmp_path / "drawn.csv"), *given): one,
        ("predict", model, str(table), "--target", "old"): two,
        ("impute", model, str(table), "-o", str(tmp_path / "full.csv")): two,
    }.items():
        assert main([*command]) == 0
        assert capsys.readouterr().err.count(said) == 1, command
    for command in (
        ("query", model, "--given", "age=120", "--target", "old"),
        ("query", model, "--probability", "age > 400"),
        ("predict", model, str(table), "--target", "age"),
    ):
        assert main([*command]) == 0
        assert "far outside" not in capsys.readouterr().err


def test_values_that_the_model_does_not_know(folder, tmp_path, capsys):
    model, table = str(folder / "m.conjoin"), tmp_path / "new.csv"
    table.write_text("age,old\n30,yes\n40,perhaps\n40,\n", encoding="utf-8")
    command = ["predict", model, str(table), "--target", "debt"]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "row 2, column 'old': 'perhaps' is not a state" in said
    assert said.endswith("--unseen missing takes such values as missing.\n")
    assert main([*command, "--unseen", "missing"]) == 0
    _, first, second, third = capsys.readouterr().out.splitlines()
    assert second == third != first
    page = ["report", model, "--test", str(table), "-o", str(tmp_path / "r.html")]
    table.write_text(
        "age,old,debt,born\n30,yes,0,1990-01-01\n40,perhaps,0,1980-01-01\n", encoding="utf-8"
    )
    assert main(page) == 1 and "--unseen missing" in capsys.readouterr().err
    assert main([*page, "--unseen", "missing"]) == 0
    with pytest.raises(DataError, match="unseen must be 'error' or 'missing', not 'skip'"):
        read_table(table, unseen="skip")


@pytest.mark.parametrize("kind", ["numbers", "states"])
def test_every_command_that_reads_a_table_takes_missing_and_unseen(kind, folder, tmp_path, capsys):
    model, dn = str(folder / "m.conjoin"), str(tmp_path / "m.dn")
    if kind == "states":
        model = str(tmp_path / "states.conjoin")
        options = ["--kind", "age=category", "--kind", "debt=category", "--exclude", "born"]
        options += ["--missing", "?", "--effort", "quick"]
        for file in (model, dn):
            assert main(["learn", str(folder / "t.csv"), "-o", file, *options]) == 0
    table, out = tmp_path / "new.csv", tmp_path / "out"
    frame = people()[:40].astype(object)
    frame.loc[3, "age"], frame.loc[4, "old"] = -999, "-999"
    frame.to_csv(table, index=False)
    commands = [
        ["predict", model, str(table), "--target", "debt"],
        ["impute", model, str(table), "-o", f"{out}.csv"],
        ["score", model, str(table)],
        ["report", model, "--test", str(table), "-o", f"{out}.html"],
        ["explore", model, "--data", str(table), "-o", f"{out}.html"],
    ]
    capsys.readouterr()
    for command in commands:
        assert main(command) == 1
        assert "--unseen missing takes such values as missing." in capsys.readouterr().err
        assert main([*command, "--missing", "-999"]) == 0
        assert main([*command, "--unseen", "missing"]) == 0
    if kind == "states":
        for command in (
            ["convert", dn, "--data", str(table), "-o", f"{out}.mn"],
            ["weights", model, "--data", str(table), "-o", f"{out}.mn"],
        ):
            assert main(command) == 1
            assert main([*command, "--missing", "-999"]) == 0
    capsys.readouterr()
    checked = {}
    for options in ((), ("--missing", "-999")):
        assert main(["check", model, str(table), "-o", f"{out}.csv", "--top", "200", *options]) == 0
        checked[options] = pd.read_csv(f"{out}.csv", dtype=str)["value"]
    assert (checked[()] == "-999").sum() == 2
    assert not (checked["--missing", "-999"] == "-999").any()
    capsys.readouterr()
    assert main(["info", str(table), "--missing", "-999", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["missing"] == 2


def test_states_that_are_numbers_are_numbers_in_json(tmp_path, capsys):
    a = np.arange(60) % 3
    pd.DataFrame({"a": a, "b": a == 1}).to_csv(tmp_path / "t.csv", index=False)
    model, table = str(tmp_path / "m.conjoin"), str(tmp_path / "t.csv")
    assert main(["learn", table, "-o", model, "--effort", "quick"]) == 0
    capsys.readouterr()
    for name, states in (("a", [0, 1, 2]), ("b", ["False", "True"])):
        assert main(["predict", model, table, "--target", name, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["states"] == states and report["predicted"][1] == states[1]
        assert main(["query", model, "--map", "--given", f"{name}={states[1]}", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["most_probable"][name] == states[1]


def test_intervals_are_the_same_in_text_json_and_python(folder, capsys):
    frame = people().drop(columns="id")
    model = JointModel(effort="quick").fit(frame)
    file = str(folder / "joint.conjoin")
    save(model.model_, file)
    for name, value in (("age", "yes"), ("debt", "None"), ("born", "yes")):
        command = ["query", file, "--target", name, "--given", f"old={value}"]
        assert main(command) == 0
        said = re.search(r"90% between (\S+) and (\S+), median", capsys.readouterr().out)
        assert main([*command, "--json"]) == 0
        ends = json.loads(capsys.readouterr().out)["marginals"][name]["interval"]
        row = pd.DataFrame({"old": [value]})
        low, high = model.interval(row, 0.9, name)[0]
        one = model.marginals({"old": value})[name]
        assert one.interval(0.9) == model.distribution(row, name).interval(0.9)
        scale = one.scale
        for text, told, ours, end in zip(
            said.groups(), ends, (low, high), one.interval(0.9), strict=True
        ):
            assert scale.number(told) == scale.number(ours) == scale.number(end)
            assert text == scale.short(scale.number(end))


def test_numbers_between_those_that_a_column_can_have(folder, tmp_path, capsys):
    model = load(folder / "m.conjoin")
    file, out = str(folder / "m.conjoin"), str(tmp_path / "s.csv")
    said = "age=33.5 is between the values that the model has seen (whole numbers): answers are interpo"
    for ask in (
        lambda given: marginals(model, given),
        lambda given: probability(model, "old=yes", given),
        lambda given: probability(model, given),
        lambda given: sample(model, 3, given),
        lambda given: what_if(model, "old=yes", given),
        lambda given: what_if(model, given, "old=yes"),
        lambda given: next_questions(model, "old", given),
    ):
        for given in ("age=33.5", {"age": 33.5}):
            with pytest.warns(DataWarning, match=re.escape(said)) as found:
                ask(given)
            assert len({str(warning.message) for warning in found}) == 1
        for given in ("age=33", {"age": 33.0}, "debt=12.25", "age > 33.5"):
            ask(given)  # without a warning
    with pytest.warns(DataWarning, match="debt=0.125 is between .* .multiples of 0.01."):
        marginals(model, "debt=0.125")
    for command in (["query", file], ["sample", file, "-n", "2", "-o", out]):
        assert main([*command, "--given", "age=33.5"]) == 0
        assert capsys.readouterr().err == f"conjoin: warning: {said}lated\n"
    twin = JointModel(effort="quick").fit(people().drop(columns="id"))
    for ask in (twin.marginals, lambda given: twin.sample(2, given)):
        with pytest.warns(DataWarning, match=re.escape(said)) as found:
            ask({"age": 33.5})
        assert len(found) == 1
