"""Cells that do not fit the rest of their rows."""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest

from conjoin import Domain, JointModel, Table, load, save, surprises
from conjoin.cli.main import main
from conjoin.errors import DataError
from conjoin.inference import JointRows
from random_joints import random_joint, random_rows
from test_evidence import KINDS, random_model


def doubted_cells(surprise_of, row, known):
    """At most two cells of a row: the oddest one of 8 bits or more, then the next given the rest."""
    doubted = set()
    for _ in range(2):
        others = set(np.flatnonzero(known).tolist()) - doubted
        bits = {v: surprise_of(row, v, doubted) for v in others}
        if max(bits.values(), default=0) < 8:
            break
        doubted.add(max(bits, key=bits.get))
    return doubted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_probabilities_given_the_rest_of_the_row(kind, seed):
    rng, model, states, potential = random_model(kind, seed)
    shown = model.domain.observed
    possible = np.unique(states[potential > 0][:, : len(shown)], axis=0)
    codes = possible[rng.integers(len(possible), size=12)].astype(np.int64)
    codes[rng.random(codes.shape) < 0.2] = -1
    table = Table(shown, codes)
    found = surprises(model, table)
    assert len(found) == (codes >= 0).sum() and found.exact

    def given_rest(row, v, doubted):
        """The distribution of a column, by enumeration."""
        agree = np.ones(len(states), bool)
        for u in set(np.flatnonzero(codes[row] >= 0).tolist()) - {v} - doubted:
            agree &= states[:, u] == codes[row, u]
        p = np.array([potential[agree & (states[:, v] == s)].sum() for s in range(shown.cards[v])])
        return p / p.sum()

    def surprise_of(row, v, doubted):
        p = given_rest(row, v, doubted)
        return max(0.0, np.log2(p.max() / p[p <= p[codes[row, v]] * (1 + 1e-7)].sum()))

    doubted = [doubted_cells(surprise_of, row, known) for row, known in enumerate(codes >= 0)]
    for cell in found:
        row, v = codes[cell.row], shown.index(cell.column)
        p = given_rest(cell.row, v, doubted[cell.row])
        assert cell.value == shown.variables[v].states[row[v]]
        assert cell.probability == pytest.approx(p[row[v]], abs=1e-9)
        assert cell.suggested_probability == pytest.approx(p.max(), abs=1e-9)
        assert p[shown.variables[v].index(cell.suggestion)] == pytest.approx(p.max(), abs=1e-9)
        tail = p[p <= p[row[v]] * (1 + 1e-7)].sum()
        assert cell.tail == pytest.approx(tail, abs=1e-9)
        assert cell.surprise == pytest.approx(max(0.0, np.log2(p.max() / tail)), abs=1e-6)
    ranks = [cell.surprise for cell in found]
    assert ranks == sorted(ranks, reverse=True)
    assert repr(found).startswith("row ") and repr(found).endswith("(rows are counted from 0)")


def slow_tail(number, x):
    """The tail of a value and the probability of the most probable state, from a distribution."""
    states = number._rows.states
    p = np.array(list(number.states().values()))
    single = dict(zip(states.single[~states.intervals].tolist(), p[~states.intervals], strict=True))
    others = 1 - sum(single.values())
    extreme = min(1.0, 2 * number.cdf(x), 2 * (1 - number.cdf(x, strict=True)))
    if not single:
        return extreme, 1.0
    level = single.get(x, min(extreme, others))
    tail = min(level, others) + sum(q for q in single.values() if q <= level * (1 + 1e-7))
    return tail, max(others, *single.values())


@pytest.mark.parametrize("seed", range(4))
def test_tails_of_numbers_given_the_rest_of_the_row(seed, monkeypatch):
    monkeypatch.setattr("conjoin.inference.surprise.ALLOWANCE", np.inf)  # tails by the row alone
    rng = np.random.default_rng(seed)
    joint, _ = random_joint(rng)
    table = random_rows(rng, joint.domain.observed, 4, missing=1)
    found, names = surprises(joint, table), table.names
    has_value = ~(table.holes | table.absent)
    assert len(found) == has_value.sum()

    def judged(row, v, doubted):
        """The probability and the tail of a cell, and the probability of the most probable state."""
        part = table.select([row])
        codes, numbers = np.where(part.holes, -1, part.codes.astype(int)), part.numbers.copy()
        for u in doubted:
            codes[:, u] = -1
            if names[u] in table.domain.numeric:
                numbers[:, table.domain.numeric.index(names[u])] = np.nan
        whole = Table.of_values(table.domain, codes, numbers)
        rows = JointRows(joint, Table.adopt(whole.domain, whole.codes, None, numbers, names))
        if names[v] in table.domain.numeric:
            number, x = rows.number(names[v])[0], part.column(names[v])[0]
            (tail, best), present = slow_tail(number, x), 1 - number.absent
            best = max(present * best, number.absent)
            return present * number.probability(x, x), present * tail, best
        p = rows.states(names[v])[0]
        own = p[part.codes[0, v]]
        return own, p[p <= own * (1 + 1e-7)].sum(), p.max()

    def surprise_of(row, v, doubted):
        _, tail, best = judged(row, v, doubted)
        return np.log2(best / max(tail, 1e-300))

    doubted = [doubted_cells(surprise_of, row, known) for row, known in enumerate(has_value)]
    for cell in found:
        v = names.index(cell.column)
        probability, tail, best = judged(cell.row, v, doubted[cell.row])
        assert cell.probability == pytest.approx(probability, abs=1e-9)
        assert cell.tail == pytest.approx(tail, abs=1e-9)
        assert cell.surprise == pytest.approx(max(0.0, np.log2(best / tail)), abs=1e-6)
    ranks = [cell.surprise for cell in found]
    assert ranks == sorted(ranks, reverse=True)
    one, same = found[3], list(found)[3]
    assert (one.row, one.column, one.suggestion) == (same.row, same.column, same.suggestion)
    assert one.suggested_probability == pytest.approx(same.suggested_probability, rel=1e-12)
    assert found[-1] == found[len(found) - 1]
    with pytest.raises(IndexError, match="none at 99"):
        found[99]


def test_an_error_is_odder_than_a_rare_value():
    """Nine in ten rows have no cents; the others have any, and one age was mistyped."""
    rng = np.random.default_rng(5)
    cents = np.where(rng.random(600) < 0.9, 0, rng.integers(1, 100, 600))
    age = rng.integers(20, 60, 600)
    pay = 500 * age + rng.normal(0, 300, 600).round()
    pay[77] *= 10
    frame = pd.DataFrame({"cents": cents, "age": age, "pay": pay})
    found = surprises(JointModel(effort="quick").fit(frame), frame)
    assert (found[0].row, found[0].column) == (77, "pay")
    odd = [cell for cell in found if cell.column == "cents" and cell.value]
    assert len(odd) == (cents > 0).sum() and max(cell.surprise for cell in odd) < 12
    # Twice the probability of more, at most that of all cents: for half of them one in ten.
    assert np.median([cell.tail for cell in odd]) == pytest.approx(0.1, abs=0.03)
    none = [cell for cell in found if cell.column == "cents" and not cell.value]
    assert {cell.surprise for cell in none} == {0.0}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 400)
    words = np.array(["red", "green", "blue"], object)
    return JointModel().fit(np.stack([words[a], words[a], words[(a + 1) % 3]], axis=1))


def test_values_that_the_model_does_not_know_come_first(model):
    rows = np.array(
        [["red", "rde", "green"], ["red", "blue", None], ["blue", "blue", "red"]], object
    )
    first, second = surprises(model, rows)[:2]
    assert (first.row, first.column, first.value, first.suggestion) == (0, "v1", "rde", "red")
    assert first.probability == 0 and first.surprise == np.inf
    assert second.row == 1 and second.surprise > 1
    with pytest.raises(DataError, match="none of the columns"):
        surprises(model, Table(Domain({"x": [0, 1]}), [[0], [1]]))


def test_the_command(model, tmp_path, capsys):
    model.model_.save(tmp_path / "m.conjoin")
    names = load(tmp_path / "m.conjoin").domain.names
    rows = ["red,red,green"] * 5 + ["red,blue,green", "green,rde,blue"]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows]) + "\n", encoding="utf-8")
    out = tmp_path / "odd.csv"
    command = ["check", str(tmp_path / "m.conjoin"), str(tmp_path / "t.csv"), "-o", str(out)]
    assert main([*command, "--top", "2"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"{out}: the 2 most surprising of 21 cells") and said.err == ""
    with out.open(encoding="utf-8", newline="") as file:
        header, first, second = csv.reader(file)
    assert ",".join(header) == (
        "row,column,value,probability,tail,suggestion,suggested probability,surprise,rule"
    )
    assert first[:6] == ["7", "v1", "rde", "0", "0", "green"] and first[7] == "inf"
    assert second[:3] == ["6", "v1", "blue"] and second[5] == "red"
    assert float(second[7]) == pytest.approx(np.log2(float(second[6]) / float(second[4])), abs=0.01)
    assert "the oddest rows:\nrow 7: v1=rde" in said.out and "row 6: v1=blue" in said.out
    assert main([*command, "--rows", "1"]) == 0
    assert "row 6: v1=blue (" not in capsys.readouterr().out.partition("oddest rows")[2]
    assert main(command) == 0 and len(out.read_text(encoding="utf-8").splitlines()) == 2
    for wrong in (
        ["-o", "x.txt"],
        ["--top", "0"],
        ["--rows", "-1"],
        ["-o", str(tmp_path / "no" / "x.csv")],
    ):
        assert main([*command, *wrong]) == 1
        assert "conjoin: " in capsys.readouterr().err


def test_the_suggestion_of_a_number_is_in_the_range_that_is_stated(tmp_path, capsys):
    """The distribution is skewed: its mode is an end value, its median is not."""
    rng = np.random.default_rng(2)
    group = rng.integers(0, 2, 800)
    size = np.round(rng.exponential(20 + 200 * group)).astype(int)
    frame = pd.DataFrame({"group": np.where(group, "b", "a"), "size": size})
    frame.loc[5] = ["a", 900]
    model = JointModel(effort="quick").fit(frame)
    found = surprises(model, frame)
    numbers = [at for at, cell in enumerate(found) if cell.column == "size"][:20]
    for at in numbers:
        low, high = map(int, found.expected(at)[0].split(" to "))
        assert low <= found[at].suggestion <= high
        row = frame.drop(columns="size").iloc[[found[at].row]]
        assert found[at].suggestion == model.quantiles(row, 0.5, "size")[0]
    save(model.model_, tmp_path / "m.conjoin")
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "odd.csv"
    files = [str(tmp_path / "m.conjoin"), str(tmp_path / "t.csv")]
    assert main(["check", *files, "-o", str(out), "--top", "1"]) == 0
    cell = found[0]
    assert (cell.row, cell.column) == (5, "size")
    with out.open(encoding="utf-8", newline="") as file:
        _, first = csv.reader(file)
    assert first[:3] == ["6", "size", "900"] and first[5] == str(cell.suggestion)
    assert f"rather {found.expected(0)[0]} (80%)" in capsys.readouterr().out


@pytest.fixture(scope="module")
def cars():
    """Numbers that follow from each other, as those of cars do; and a category."""
    rng = np.random.default_rng(8)
    size = rng.gamma(4, 50, 500).round()
    weight = (1500 + 8 * size + rng.normal(0, 150, 500)).round()
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": weight,
            "seconds": (24 - 0.004 * weight + rng.normal(0, 0.7, 500)).round(1),
            "made": np.where(size > 220, "us", np.where(rng.random(500) < 0.5, "eu", "jp")),
        }
    )
    return frame, JointModel(effort="quick").fit(frame)


def test_two_exchanged_numbers_are_found_and_no_others_blamed(cars):
    frame, model = cars
    for row in (3, 77, 250):
        wrong = frame.astype({"size": float})
        wrong.loc[row, ["weight", "seconds"]] = frame.loc[row, ["seconds", "weight"]].tolist()
        found = surprises(model, wrong)
        assert {(cell.row, cell.column) for cell in found[:2]} == {
            (row, "weight"),
            (row, "seconds"),
        }
        others = [cell for cell in found if cell.row == row][2:]
        assert max(cell.surprise for cell in others) < 8
        oddest = found.odd_rows(1)[0]
        assert oddest.row == row and {c.column for c in oddest.cells[:2]} == {"weight", "seconds"}
        assert oddest.words(first_row=1).startswith(f"row {row + 1}: ")
        for cell in found[:2]:  # suggested from the size alone
            seen = frame[cell.column]
            assert seen.min() <= cell.suggestion <= seen.max()
            assert abs(cell.suggestion - frame.loc[row, cell.column]) < 2 * seen.std()


def test_wrong_numbers_do_not_explain_each_other():
    """One row in fifty has height and weight exchanged, so that a hidden state may expect it."""
    rng = np.random.default_rng(4)
    height = rng.normal(1.7, 0.1, 1000).round(2)
    weight = (60 + 60 * (height - 1.7) + rng.normal(0, 8, 1000)).round()
    wrong = np.arange(0, 1000, 50)
    frame = pd.DataFrame({"height": height, "weight": weight, "kind": rng.choice(["a", "b"], 1000)})
    frame.loc[wrong, ["height", "weight"]] = frame.loc[wrong, ["weight", "height"]].to_numpy()
    found = surprises(JointModel(effort="quick").fit(frame), frame)
    assert {cell.row for cell in found[: len(wrong)]} == set(wrong.tolist())
    assert {row.row for row in found.odd_rows(len(wrong))} == set(wrong.tolist())


def test_rows_without_odd_cells_are_not_listed(model):
    words = [["red", "red", "green"], ["green", "green", "blue"]]
    assert surprises(model, np.array(words, object)).odd_rows() == []
    odd = surprises(model, np.array([*words, ["blue", "red", "red"]], object)).odd_rows()
    assert [row.row for row in odd] == [2]
    assert 0 < odd[0].surprise <= sum(cell.surprise for cell in odd[0].cells)
