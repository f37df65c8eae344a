"""What commands print on a terminal, what they print elsewhere, and what they do without options."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys

import numpy as np
import pytest

from conjoin import BayesianNetwork, Domain, TableCPD, load, read_table
from conjoin.cli.main import COMMANDS, build_parser, main

LETTERS = "abcdefghijkl"
ESCAPES = re.compile(r"\x1b\[\d*m")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch, **environment):
    """Make standard output and standard error one terminal of 60 columns, without colours."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    for name, value in {"COLUMNS": "60", "NO_COLOR": "1", "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    return screen


@pytest.fixture
def model(tmp_path):
    """Twelve letters, of which a state of another column makes one certain, and a coin."""
    domain = Domain({"letter": list(LETTERS), "known": ["no", "yes"], "coin": ["heads", "tails"]})
    weights = [float(k + 1) / 78 for k in range(12)]
    certain = [1.0] + [0.0] * 11
    tables = [
        TableCPD.of(domain, "letter", ["known"], {"no": weights, "yes": certain}),
        TableCPD.of(domain, "known", [], 0.0),
        TableCPD.of(domain, "coin", [], 0.5),
    ]
    path = tmp_path / "m.conjoin"
    BayesianNetwork(domain, tables).save(path)
    return str(path)


def test_states_are_sorted_with_bars_on_a_terminal(model, monkeypatch):
    terminal = on_terminal(monkeypatch)
    assert main(["query", model, "--target", "letter"]) == 0
    lines = terminal.getvalue().splitlines()
    assert all(len(line) <= 60 for line in lines) and len(lines) > 3
    assert all(line.startswith(" " * len("letter  ")) for line in lines[2:])
    items = re.findall(r"(\S+(?: more)?) (?:([█▉▊▋▌▍▎▏]+) )?(0\.\d{4})", " ".join(lines[1:]))
    expected = [(k + 1) / 78 for k in reversed(range(12))]
    assert [state for state, _, _ in items] == [*"lkjihgfe", "+4 more"]
    assert [float(p) for *_, p in items] == [
        *(round(p, 4) for p in expected[:8]), round(sum(expected[8:]), 4)
    ]  # fmt: skip
    for p, (_, bar, _) in zip(expected[:8], items, strict=False):
        eighths = 8 * bar.count("█") + (0 if bar[-1] == "█" else "▏▎▍▌▋▊▉".index(bar[-1]) + 1)
        assert abs(eighths / 80 - p) <= 0.5 / 80


def test_pipes_get_plain_lines_in_the_order_of_the_states(model, capsys):
    assert main(["query", model, "--target", "letter"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Probabilities (exact)"
    states = "  ".join(f"{c} {(k + 1) / 78:.4f}" for k, c in enumerate(LETTERS))
    assert second == f"letter  {states}"


@pytest.mark.parametrize(("environment", "coloured"), [
    ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": "", "TERM": "dumb"}, False),
])  # fmt: skip
def test_colours(environment, coloured, model, monkeypatch):
    terminal = on_terminal(monkeypatch, **environment)
    assert main(["query", model, "--target", "coin"]) == 0
    text = terminal.getvalue()
    assert bool(ESCAPES.search(text)) is coloured
    assert "coin  heads █████ 0.5000  tails █████ 0.5000" in ESCAPES.sub("", text)


def test_questions_take_one_line_and_leave_out_what_tells_nothing(tmp_path, capsys):
    domain = Domain({"ill": ["no", "yes"], "test": ["-", "+"], "coin": ["heads", "tails"]})
    tables = [
        TableCPD.of(domain, "ill", [], 0.5),
        TableCPD.of(domain, "test", ["ill"], {"no": 0.2, "yes": 0.9}),
        TableCPD.of(domain, "coin", [], 0.5),
    ]
    model = str(tmp_path / "m.conjoin")
    BayesianNetwork(domain, tables).save(model)
    assert main(["query", model, "--next", "ill"]) == 0
    _, _, test, rest = capsys.readouterr().out.splitlines()
    bits = 1 - 0.55 * entropy(0.45 / 0.55) - 0.45 * entropy(0.4 / 0.45)
    # P(ill) moves by 0.389 * 0.45 if the test is negative, and by 0.318 * 0.55, as much, if positive
    assert test.startswith(f"test  {bits:.4f} bits  if ")
    assert test.endswith(("- (0.45): no 0.5 -> 0.8889", "+ (0.55): yes 0.5 -> 0.8182"))
    assert rest == "... and 1 of less than 0.001 bits"


def entropy(p):
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


def test_the_bare_command_greets(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    examples = re.findall(r"\n  conjoin (\w+) \S+", said.out)
    assert examples == ["learn", "query", "explore"] and said.err == ""


def test_unknown_commands_get_a_suggestion(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["explor", "m.conjoin"])
    assert caught.value.code == 2
    assert "there is no command 'explor'. Did you mean 'explore'?" in capsys.readouterr().err


def small_table(path, rows=90, columns=3):
    """A table with a date, a number, categories, an identifier and missing values."""
    rng = np.random.default_rng(5)
    lines = [
        ",".join(
            [
                "customer_id",
                "long_name_of_a_total_protein",
                "kind",
                *(f"x_{k}" for k in range(columns - 2)),
            ]
        )
    ]
    for row in range(rows):
        number = "" if row % 9 == 0 else f"{rng.normal(3):.4f}"
        cells = rng.choice(["yes", "no"], columns - 1)
        lines.append(",".join([f"c{row}", number, *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_outputs_are_named_after_inputs(tmp_path, capsys):
    table = small_table(tmp_path / "sales.v2.csv")
    assert main(["learn", table, "--effort", "quick"]) == 0
    model = str(tmp_path / "sales.v2.conjoin")
    for words in (
        ["explore"],
        ["report"],
        ["impute", table],
        ["check", table],
        ["sample", "-n", "3"],
    ):
        assert main([words[0], model, *words[1:]]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "sales.v2.csv", "sales.v2.conjoin", "sales.v2.html", "sales.v2-report.html",
        "sales.v2-filled.csv", "sales.v2-check.csv", "sales.v2-sample.csv",
    }  # fmt: skip
    assert not read_table(tmp_path / "sales.v2-filled.csv", load(model).domain).holes.any()
    assert "sales.v2-report.html" in capsys.readouterr().out


def test_learn_and_info_say_what_each_column_is(tmp_path, capsys):
    table, model = small_table(tmp_path / "t.csv", columns=16), str(tmp_path / "m.conjoin")
    assert main(["learn", table, "-o", model, "--closed-form"]) == 0
    learned = capsys.readouterr().out.splitlines()
    assert learned[1].split() == ["column", "kind", "missing", "values"]
    assert len(learned) == 1 + 1 + 12 + 1
    assert learned[-1] == f"... and 4 more (conjoin info {model})"
    assert re.match(
        r"long_name_of_a_total_protein  number +11% +\d\.\d+ to \d\.\d+, in steps", learned[2]
    )
    assert re.match(r"x_0 +category +0% +2 states: no, yes$", learned[4])
    for file in (table, model):
        assert main(["info", file]) == 0
        said = capsys.readouterr().out
        rows = [line.split()[:2] for line in said.splitlines() if "states: no" in line]
        assert rows == [[name, "category"] for name in ["kind", *(f"x_{k}" for k in range(14))]]
        assert ["long_name_of_a_total_protein", "number"] in [
            line.split()[:2] for line in said.splitlines()
        ]
    assert "\n  left out              customer_id (90 different values in 90 rows)\n" in said
    assert "\n  learned from          t.csv, 90 rows\n" in said
    assert not re.search(r"rotations|orders|cells \d|e\+0", said)
    assert main(["learn", table, "-o", model, "--closed-form", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == model


def test_scores_say_what_they_are(tmp_path, capsys):
    table, model = small_table(tmp_path / "t.csv"), str(tmp_path / "m.conjoin")
    assert main(["learn", table, "-o", model]) == 0
    assert main(["info", model]) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"\n  rows held out +log-likelihood -\d\.\d\d nats per row, numbers counted as", said
    )
    for metric, words in (("pll", "pseudo-log-likelihood: pll -"), ("ll", "log-likelihood: ll -"),
                          ("cmll", "conditional marginal log-likelihood: cmll -")):  # fmt: skip
        assert main(["score", model, table, "--metric", metric]) == 0
        assert capsys.readouterr().out.startswith(words)


def test_computed_numbers_have_no_more_digits_than_they_are_worth(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=150) * np.pi  # no grid
    lines = [f"{v!r},{'high' if v > 0 else 'low'}" for v in x.tolist()]
    table, model = tmp_path / "t.csv", str(tmp_path / "m.conjoin")
    table.write_text("x,side\n" + "\n".join(lines) + "\n")
    assert main(["learn", str(table), "-o", model, "--effort", "quick"]) == 0
    capsys.readouterr()
    assert main(["predict", model, str(table), "--target", "x"]) == 0
    texts = re.findall(r"\d+\.\d+", capsys.readouterr().out.partition("\n")[2])
    assert main(["check", model, str(table), "--top", "20", "-o", str(tmp_path / "odd.csv")]) == 0
    cells = [line.split(",") for line in (tmp_path / "odd.csv").read_text().splitlines()[1:]]
    texts += [cell[5] for cell in cells if cell[1] == "x"]
    assert (
        len(texts) > 300 and max(len(text.lstrip("-0.").replace(".", "")) for text in texts) <= 12
    )


def test_messages_name_the_options_of_the_command_line(tmp_path, capsys):
    table, model = small_table(tmp_path / "t.csv"), str(tmp_path / "m.dn")
    assert main(["learn", table, "-o", model]) == 0
    assert main(["query", model, "--task", "PR"]) == 1
    said = capsys.readouterr().err
    assert "--method gibbs" in said and "method='" not in said


def test_every_command_that_reads_tables_takes_their_dialect(tmp_path, capsys):
    for name in COMMANDS:
        (commands,) = (
            a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction)
        )
        options = commands.choices[name]._option_string_actions
        assert ("--missing" in options) == ({"--sep", "--encoding", "--decimal"} <= set(options))
    source = tmp_path / "t.csv"
    rng = np.random.default_rng(2)
    lines = [
        f"{'' if k == 5 else k % 40},{k % 7}|{rng.choice(['čaj', 'voda'])}" for k in range(200)
    ]
    source.write_bytes(b"x|name\n" + "\n".join(lines).encode("iso8859-2"))
    how = ["--sep", "|", "--encoding", "iso8859-2", "--decimal", ","]
    model, full = str(tmp_path / "m.conjoin"), tmp_path / "full.csv"
    assert main(["learn", str(source), "-o", model, "--effort", "quick", *how]) == 0
    assert load(model).domain["name"].states == ("voda", "čaj")
    assert load(model).domain.scale("x").high == 39.5
    read = str(source)
    for words in (
        ["info", read], ["score", model, read], ["predict", model, read, "--target", "x"],
        ["check", model, read], ["explore", model, "--data", read],
    ):  # fmt: skip
        assert main([*words, *how]) == 0
    lines[5] = lines[5].replace(",5|", "5|")
    source.write_bytes(b"x|name\n|voda\n" + "\n".join(lines).encode("iso8859-2"))
    assert main(["impute", model, str(source), "-o", str(full), *how]) == 0
    filled = full.read_bytes().decode("iso8859-2").splitlines()
    assert re.fullmatch(r"\d+(,\d)?\|voda", filled[1]) and filled[2:] == lines
    assert "Traceback" not in capsys.readouterr().err
