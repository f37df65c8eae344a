"""Strengths, pictures, graphs, calibration, pages, and the commands that show them."""

from __future__ import annotations

import builtins
import html
import json
import re
import shlex
import xml.etree.ElementTree as ET
from base64 import b64decode
from datetime import date, timedelta
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zlib import decompress

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings

from conjoin import (
    BayesianNetwork,
    ConjoinError,
    DependencyNetwork,
    Domain,
    Features,
    MarkovNetwork,
    Table,
    TableCPD,
    Variable,
    convert,
    learn_joint,
    marginals,
    pll,
    write_table,
)
from conjoin.cli.main import main
from conjoin.data import as_table
from conjoin.inference import JointProbabilities, JointRows, Run
from conjoin.joint import interactions
from conjoin.models import TableFactor
from conjoin.views.explorer import explore
from conjoin.views.reports import (
    calibration,
    check_held_out,
    counted_joints,
    html_card,
    layout,
    plot,
    to_networkx,
    write_report,
)
from conjoin.views.reports.associations import graph, joints_of
from conjoin.views.reports.boosting_comparison import rival
from conjoin.views.reports.distributions import column_shares
from conjoin.views.reports.report_page import page
from conjoin.views.reports.statements import rows_for, statements
from conjoin.views.reports.subject import Subject, missing_patterns
from conjoin.views.reports.surprising import odd_rows
from conjoin.views.reports.svg import heat_map
from conjoin.views.reports.together import direct_effect
from reference import all_states, log_potentials
from reference import interactions as reference_parts
from strategies import (
    generators,
    random_bayesian_network,
    random_dependency_network,
    random_domain,
    random_marginals,
    random_markov_network,
)


def by_names(domain, marginals):
    return {
        variable.name: dict(zip(variable.states, p.tolist(), strict=True))
        for variable, p in zip(domain, marginals, strict=True)
    }


def expected_tables(domain, marginals, values_of):
    """The parts of all pairs by brute force; values_of(i) are the log-potentials of the CPD of i."""
    n = len(domain)
    parts = [reference_parts(domain, marginals, values_of(i), i) for i in range(n)]
    return {
        (i, j): np.squeeze(
            (parts[i][i, j] + parts[j][i, j]) / 2,
            axis=tuple(k for k in range(n) if k not in (i, j)),
        )
        for i in range(n)
        for j in range(i + 1, n)
    }


def check_tables(found, expected, marginals):
    known = {(i, j): k for k, (i, j) in enumerate(zip(found.left, found.right, strict=True))}
    for (i, j), table in expected.items():
        rms = np.sqrt(marginals[i] @ table**2 @ marginals[j])
        if (i, j) in known:
            link = found[known[i, j]]
            np.testing.assert_allclose(link.table, table, atol=1e-9)
            assert link.strength == pytest.approx(rms, abs=1e-9)
            assert link.variables == (found.domain.names[i], found.domain.names[j])
        else:
            assert rms < 1e-9
    assert (np.diff(found.strength) <= 0).all()


@given(generators())
@settings(max_examples=60, deadline=None)
def test_strengths_of_markov_networks(rng):
    domain = random_domain(rng)
    mn = random_markov_network(rng, domain)
    marginals = random_marginals(rng, domain)
    values = log_potentials(mn, all_states(domain))
    expected = expected_tables(domain, marginals, lambda i: values)
    check_tables(interactions(mn, base=by_names(domain, marginals)), expected, marginals)


@given(generators())
@settings(max_examples=40, deadline=None)
def test_strengths_of_dependency_and_bayesian_networks(rng):
    domain = random_domain(rng)
    marginals = random_marginals(rng, domain)
    states = all_states(domain)
    dn = random_dependency_network(rng, domain)

    def said(i):  # the normaliser does not depend on x_i, so it adds nothing to sets with i
        log_p = dn.cpds[i].log_probabilities(states)
        return log_p[np.arange(len(states)), states[:, i]]

    expected = expected_tables(domain, marginals, said)
    check_tables(interactions(dn, base=by_names(domain, marginals)), expected, marginals)
    bn = random_bayesian_network(rng, domain)
    values = bn.log_likelihood(states)
    expected = expected_tables(domain, marginals, lambda i: values)
    check_tables(interactions(bn, base=by_names(domain, marginals)), expected, marginals)


@given(generators())
@settings(max_examples=20, deadline=None)
def test_strengths_survive_conversion_over_all_orders(rng):
    """A conversion over all orders keeps the mean over the CPDs, also with off values."""
    dn = random_dependency_network(rng, random_domain(rng, 3, 5))
    mn = convert(dn, orders="all", max_length=2)
    one, other = interactions(dn), interactions(mn)
    pairs = [(i, j) for i in range(len(dn.domain)) for j in range(i)]
    np.testing.assert_allclose(one.between(pairs), other.between(pairs), atol=1e-9)


def test_the_odds_are_the_odds_ratio():
    """For binary variables: exp of the contrast of the weights; otherwise one state against the rest."""
    domain = Domain({"a": ["no", "yes"], "b": ["no", "yes"]})
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(1.5, {"a": "no", "b": "yes"})]))
    base = {"a": {"no": 0.9, "yes": 0.1}, "b": {"no": 0.8, "yes": 0.2}}
    link = interactions(mn, base=base)[0]
    assert link.states == ("yes", "yes")
    assert link.odds == pytest.approx(np.exp(-1.5))
    assert str(link) == "a=yes and b=yes avoid each other (odds ÷ 4.5)"
    three = Domain({"a": [0, 1, 2], "b": ["x", "y", "z"]})
    mn = MarkovNetwork(three, Features.from_terms(three, [(2.0, {"a": 1, "b": "z"})]))
    link = interactions(mn)[0]
    assert link.states == (1, "z")
    assert link.odds == pytest.approx(np.exp(2.0))


def test_strengths_of_impossible_states_and_empty_networks():
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": ["only"]})
    zero = TableFactor((0, 1), np.array([[0.0, -np.inf], [0.0, 0.0]]))
    found = interactions(MarkovNetwork(domain, factors=[zero]))
    assert len(found) == 1
    assert found.strength[0] == pytest.approx(np.log(1e6) / 4)
    nothing = interactions(MarkovNetwork(domain))
    assert (len(nothing), str(nothing)) == (0, "no two variables interact")
    assert interactions(MarkovNetwork(Domain({}))).strongest() == []
    with pytest.raises(ConjoinError, match="product of marginals"):
        interactions(MarkovNetwork(domain), base=[{"a": 0, "b": 1, "c": "only"}])


def chain(n, weight=1.0):
    domain = Domain({f"variable {i}": ["no", "yes"] for i in range(n)})
    names = domain.names
    terms = [
        (weight * (1 + i % 5), {a: "yes", b: "yes"}) for i, (a, b) in enumerate(pairwise(names))
    ]
    terms += [(0.1, {names[i]: "yes", names[(7 * i + 3) % n]: "yes"}) for i in range(n)]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def drawn(links, **options):
    pairs = np.stack([links.left, links.right], axis=1)
    return layout.draw(links.domain.names, pairs, links.strength, layout.Shape(), **options)


@pytest.mark.parametrize("n", [1, 2, 5, 30, 100])
def test_boxes_do_not_overlap_and_layouts_are_reproducible(n):
    found = interactions(chain(n))
    one, again = drawn(found), drawn(found)
    np.testing.assert_array_equal(one.centre, again.centre)
    gap = np.abs(one.centre[:, None] - one.centre)
    apart = (gap[..., 0] >= (one.width[:, None] + one.width) / 2) | (gap[..., 1] >= layout.HEIGHT)
    assert (apart | np.eye(n, dtype=bool)).all()
    assert (one.centre >= 0).all()
    assert (one.centre <= one.size).all()
    assert len(one.pairs) == min(len(found), 3 * n // 2)
    if n > 5:
        assert not np.array_equal(drawn(found, random_state=1).centre, one.centre)


def test_only_the_variables_with_the_strongest_links_are_drawn():
    rng = np.random.default_rng(0)
    n = layout.MAX_VARIABLES + 40
    domain = Domain({f"v{i}": [0, 1] for i in range(n)})
    terms = [(3.0, {f"v{i}": 1, f"v{i + 1}": 1}) for i in range(layout.MAX_VARIABLES - 1)]
    terms += [(float(rng.random()), {f"v{i}": 1, "v0": 1}) for i in range(layout.MAX_VARIABLES, n)]
    drawing = drawn(interactions(MarkovNetwork(domain, Features.from_terms(domain, terms))))
    assert drawing.variables.tolist() == list(range(layout.MAX_VARIABLES))


def test_plot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    linked = joints_of(chain(30, 0.5)).strongest(30 * 29)  # all that share more than 0.0001 bits
    assert len(linked) > 40
    ax = plot(chain(30, 0.5), max_links=40)
    assert len(ax.texts) == 30
    (lines,) = ax.collections
    assert len(lines.get_paths()) == 40
    widths = lines.get_linewidths()
    assert list(widths) == sorted(widths)
    assert widths[-1] > 3 * widths[0]
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    _, mine = plt.subplots(figsize=(3, 3))
    assert plot(chain(5), ax=mine) is mine
    assert len(mine.texts) == 5
    plt.close("all")


def test_one_graph_everywhere():
    """A plot, a card, a report and the explorer join the same columns."""
    pytest.importorskip("matplotlib").use("agg")
    rng = np.random.default_rng(6)
    model = random_markov_network(rng, Domain({name: [0, 1, 2] for name in "abcdefg"}))
    shown = graph(joints_of(model), model.domain.names, model.blankets())
    places = [node["label"] for node in shown["nodes"]]
    expected = {frozenset(places[k] for k in link["ends"]) for link in shown["links"]}
    card = re.findall(r"<line.*?<title>(\w) – (\w)</title>", html_card(model), re.DOTALL)
    assert {frozenset(pair) for pair in card} == expected
    packed = re.search(r'id="model">(.*?)</script>', explore(model).html)[1]
    inside = json.loads(decompress(b64decode(packed)))["graph"]
    labels = [node["label"] for node in inside["nodes"]]
    assert {frozenset(labels[k] for k in link["ends"]) for link in inside["links"]} == expected
    ax = plot(model)
    names = {tuple(np.round(text.get_position(), 6)): text.get_text() for text in ax.texts}
    lines = ax.collections[0].get_segments()
    assert {frozenset(names[tuple(np.round(end, 6))] for end in line) for line in lines} == expected


def test_headers_of_a_joint_do_not_overlap():
    domain = Domain({"a": ["x", "y"], "b": ["a rather long label", "another long one", "c"]})
    joint = JointProbabilities(domain, np.full((2, 3), 1 / 6), Run("exact", exact=True))
    picture = ET.fromstring(heat_map(joint))
    texts = [e for e in picture.iter() if e.tag.endswith("text") and e.text in domain["b"].states]
    ends = [(float(e.get("x")), 0.3 * 13 * len(e.text)) for e in texts]
    assert len(ends) == 3
    for (left, half), (right, other) in pairwise(ends):
        assert left + half <= right - other


def test_to_networkx():
    nx = pytest.importorskip("networkx")
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1], "d": [0, 1]})
    parity = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2, 1.0, -1.0)
    features = Features.from_terms(domain, [(2.0, {"c": 1, "d": 1})])
    graph = to_networkx(MarkovNetwork(domain, features, [TableFactor((0, 1, 2), parity)]))
    assert isinstance(graph, nx.Graph)
    assert not graph.is_directed()
    assert {frozenset(e) for e in graph.edges} == {frozenset(e) for e in ("ab", "ac", "bc", "cd")}
    assert graph["a"]["b"]["strength"] == pytest.approx(0.0)  # only all three together say anything
    assert graph["c"]["d"]["strength"] == pytest.approx(0.5)
    assert graph.nodes["a"]["states"] == [0, 1]
    cpds = [
        TableCPD.of(domain, "a", [], 0.2),
        TableCPD.of(domain, "b", ["a"], {0: 0.1, 1: 0.9}),
        TableCPD.of(domain, "c", ["a"], {0: 0.5, 1: 0.6}),
        TableCPD.of(domain, "d", [], 0.5),
    ]
    for kind in (BayesianNetwork, DependencyNetwork):
        assert set(to_networkx(kind(domain, cpds)).edges) == {("a", "b"), ("a", "c")}


@given(generators())
@settings(max_examples=15, deadline=None)
def test_calibration_by_hand(rng):
    domain = random_domain(rng)
    choose = (random_markov_network, random_dependency_network, random_bayesian_network)
    model = choose[int(rng.integers(3))](rng, domain)
    codes = np.stack([rng.integers(0, c, 40) for c in domain.cards], axis=1)
    table = Table(domain, codes, rng.integers(0, 3, 40) + 0.5)
    found = calibration(model, table)
    cells = []
    for i, name in enumerate(domain.names):
        p = model.conditional(name, table)
        for row in range(40):
            for state in range(domain.cards[i]):
                cells.append((p[row, state], codes[row, i] == state, table.weights[row]))
    predicted, held, weight = (np.array(x, float) for x in zip(*cells, strict=True))
    # Probabilities at the edge of a bin may fall on either side of it: ask for none.
    if (np.abs(predicted * 10 - np.round(predicted * 10)) > 1e-9).all():
        where = np.minimum((predicted * 10).astype(int), 9)
        gap = 0.0
        expected = []
        for b in np.unique(where):
            mine = where == b
            w = weight[mine]
            pair = np.average(predicted[mine], weights=w), np.average(held[mine], weights=w)
            expected.append((w.sum(), *pair))
            gap += w.sum() * abs(pair[0] - pair[1])
        np.testing.assert_allclose(
            [(b.weight, b.predicted, b.observed) for b in found.bins], expected, atol=1e-9
        )
        assert found.gap == pytest.approx(gap / weight.sum(), abs=1e-9)
    for variable in found.variables:
        assert -variable.log_loss == pytest.approx(pll(model, table).by_variable[variable.name])


@given(generators())
@settings(max_examples=10, deadline=None)
def test_calibration_sums_missing_values_out(rng):
    domain = random_domain(rng, 3, 4)
    model = random_markov_network(rng, domain)
    codes = np.stack([rng.integers(-1, c, 60) for c in domain.cards], axis=1)
    table, states = Table(domain, codes), all_states(domain)
    p = np.exp(log_potentials(model, states))
    for variable in calibration(model, table).variables:
        v, logs = domain.index(variable.name), []
        for row in codes[codes[:, v] >= 0]:
            agrees = (states == row) | (row < 0)
            rest = np.delete(agrees, v, axis=1).all(axis=1)
            logs.append(np.log(p[agrees.all(axis=1)].sum() / p[rest].sum()))
        assert variable.log_loss == pytest.approx(-np.mean(logs), abs=1e-9)
    with pytest.raises(ConjoinError, match="no rows"):
        calibration(model, Table(domain, codes[:0]))


class Reader(HTMLParser):
    """Check that tags are closed in order, and collect text and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.addresses, self.tags = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href") and not v.startswith("#")]
        assert not any(k.startswith("on") for k, _ in attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, _):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    assert all(re.match("joint.html(#|$)", address) for address in reader.addresses)  # the explorer
    assert "script" not in reader.tags
    assert "@import" not in text
    assert "url(" not in text
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(picture)
    return reader


def words(model, *tables, **options):
    """The text of a report, with single spaces."""
    return flat(read(page(Subject.of(model, *(tables or (None, None))), **options)))


def flat(reader):
    return re.sub(r"\s+", " ", "".join(reader.text))


def weather(rng, rows=400):
    domain = Domain(
        {'<sky> & "co"': ["clear", "dark"], "rain": ["no", "yes"], "wet": ["no", "yes"]}
    )
    sky = rng.random(rows) < 0.4
    rain = rng.random(rows) < np.where(sky, 0.7, 0.1)
    wet = rng.random(rows) < np.where(rain, 0.9, 0.2)
    return Table(domain, np.stack([sky, rain, wet], axis=1).astype(np.int64))


def weather_network(domain):
    sky = domain.names[0]
    return DependencyNetwork(
        domain,
        [
            TableCPD.of(domain, sky, ["rain"], {"no": 0.2, "yes": 0.8}),
            TableCPD.of(domain, "rain", [sky, "wet"], {
                ("clear", "no"): 0.05, ("clear", "yes"): 0.4, ("dark", "no"): 0.2, ("dark", "yes"): 0.9,
            }),
            TableCPD.of(domain, "wet", ["rain"], {"no": 0.2, "yes": 0.9}),
        ],
    )  # fmt: skip


def as_percent(text):
    return float(text.rstrip("%").lstrip("<>")) / 100


def statement_figures(text, start):
    """The four probabilities of a statement: model and table, with and without the condition."""
    found = re.search(
        re.escape(start)
        + r"[^:]*: (\S+%) rather than (\S+%)\. ?In the table: (\S+%) rather than (\S+%)\.",
        text,
    )
    return [as_percent(x) for x in found.groups()]


def test_statements_are_those_of_the_counts():
    rng = np.random.default_rng(1)
    train = weather(rng, 4000)
    mn = convert(weather_network(train.domain), train)
    text = words(mn, train, None)
    sky, rain, wet = train.codes.T.astype(bool)
    for start, held, about in (
        ("Where rain = yes, wet = yes is", rain, wet),
        ('Where <sky> & "co" = dark, rain = yes is', sky, rain),
    ):
        figures = statement_figures(text, start)
        assert figures[2:] == pytest.approx([about[held].mean(), about[~held].mean()], abs=0.006)
        states = all_states(mn.domain)
        p = np.exp(log_potentials(mn, states))
        p /= p.sum()
        h, o = (states[:, k] == 1 for k in ((1, 2) if held is rain else (0, 1)))
        expected = [p[h & o].sum() / p[h].sum(), p[~h & o].sum() / p[~h].sum()]
        assert figures[:2] == pytest.approx(expected, abs=0.006)


def redundant_network():
    """Two copies of a column, and a third that avoids the first one if the second is known."""
    domain = Domain({"a": ["no", "yes"], "copy": ["no", "yes"], "b": ["no", "yes"]})
    terms = [
        (-8.0, {"a": "yes", "copy": "no"}),
        (-8.0, {"a": "no", "copy": "yes"}),
        (3.0, {"copy": "yes", "b": "yes"}),
        (-1.5, {"a": "yes", "b": "yes"}),
    ]
    return MarkovNetwork(domain, Features.from_terms(domain, terms))


def test_sentences_agree_with_the_table_where_columns_are_redundant():
    """Overall, a and b go together; with the copy unchanged, they avoid each other."""
    mn = redundant_network()
    assert interactions(mn).strongest(3)[-1].odds < 1  # the link alone would mislead
    from conjoin import sample

    table = sample(mn, 2000, random_state=3)
    a, _, b = table.codes.T.astype(bool)
    assert b[a].mean() > b[~a].mean()
    text = words(mn, table, None)
    model, otherwise, own, rest = statement_figures(text, "Where a = no, b = no is")
    assert model > otherwise
    assert [own, rest] == pytest.approx([1 - b[~a].mean(), 1 - b[a].mean()], abs=0.006)
    assert "reversed by the other columns" in text


@given(generators())
@settings(max_examples=15, deadline=None)
def test_no_statement_contradicts_the_table(rng):
    domain = random_domain(rng)
    mn = random_markov_network(rng, domain)
    mixed = rng.integers(-1, 5, 300)  # one number for all columns makes them depend on each other
    codes = np.stack(
        [(mixed + k * (mixed > 2)) % (c + 1) - 1 for k, c in enumerate(domain.cards)], axis=1
    )
    subject = Subject.of(mn, Table(domain, codes), None)
    found, _ = statements(subject, 100)
    states = all_states(domain)
    p = np.exp(log_potentials(mn, states))
    p /= p.sum()
    for said in found:
        i, j, s, t = said.given, said.about, said.condition, said.outcome
        known = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        held, about = codes[known, i] == s, codes[known, j] == t
        assert said.table.held == pytest.approx(about[held].mean())
        assert said.table.otherwise == pytest.approx(about[~held].mean())
        held, about = states[:, i] == s, states[:, j] == t
        assert said.model.held == pytest.approx(p[held & about].sum() / p[held].sum())
        assert said.model.otherwise == pytest.approx(p[~held & about].sum() / p[~held].sum())
        assert said.model.difference * said.table.difference > 0


def test_chance_is_no_finding():
    rng = np.random.default_rng(2)
    domain = Domain({"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2], "d": [0, 1, 2]})
    codes = rng.integers(0, 3, (200, 4))
    codes[:, 3] = np.where(rng.random(200) < 0.6, codes[:, 2], codes[:, 3])
    terms = [(0.3, {x: 1, y: 1}) for x, y in ("ab", "bc", "cd")]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    found, _ = statements(Subject.of(mn, Table(domain, codes), None), 10)
    assert [(said.given, said.about) for said in found] == [(2, 3)]
    independent = sum(
        counted_joints(Table(domain, rng.integers(0, 3, (200, 4)))).may_be_chance(i, j)
        for _ in range(50)
        for i, j in ((0, 1), (2, 3))
    )
    assert independent >= 94


@given(generators())
@settings(max_examples=15, deadline=None)
def test_columns_without_a_direct_link_make_no_difference(rng):
    domain = random_domain(rng, 3, 4)
    mn = random_markov_network(rng, domain)
    subject = Subject.of(mn, None, None)
    rows = rows_for(subject, 50)
    linked = mn.blankets()
    for said in statements(subject, 100)[0]:
        found = direct_effect(subject, said, rows)
        codes = rows.codes.copy()
        codes[:, said.given] = said.condition
        p = mn.conditional(domain.names[said.about], codes)[:, said.outcome]
        assert found.held == pytest.approx(p.mean())
        if said.about not in linked[said.given]:
            assert found.difference == pytest.approx(0, abs=1e-12)


def test_every_column_is_shown_with_its_distribution():
    rng = np.random.default_rng(4)
    train = weather(rng)
    codes = train.codes.astype(np.int64)
    codes[:100, 2] = -1
    table = Table(train.domain, codes)
    mn = convert(weather_network(train.domain), train)
    shares = {c.name: c for c in column_shares(Subject.of(mn, table, None))}
    assert list(shares) == list(train.domain.names)
    wet = codes[100:, 2]
    np.testing.assert_allclose(shares["wet"].table, [(wet == 0).mean(), (wet == 1).mean()])
    assert shares["wet"].missing == pytest.approx(0.25)
    states = all_states(mn.domain)
    p = np.exp(log_potentials(mn, states))
    for k, column in enumerate(shares.values()):
        expected = [p[states[:, k] == s].sum() / p.sum() for s in (0, 1)]
        np.testing.assert_allclose(column.model, expected, atol=1e-9)
    assert "2 states · 25% missing" in words(mn, table, None)
    many = Domain({"x": [f"state {k}" for k in range(30)], "y": [0, 1]})
    text = words(MarkovNetwork(many))
    assert text.count("state ") == 7
    assert "23 others" in text


def test_the_report_with_all_its_parts(tmp_path):
    rng = np.random.default_rng(1)
    train, test = weather(rng), weather(rng)
    dn = weather_network(train.domain)
    mn = convert(dn, train)
    write_report(mn, tmp_path / "a.html", train, test, conditionals=dn, title="Weather <1>")
    reader = read((tmp_path / "a.html").read_text("utf-8"))
    text = flat(reader)
    for part in (
        "Weather <1>", "What is in the table", "What goes with what", "rows that the model has not seen",
        "What looks odd", "How it was learned", "Where the conditionals disagree",
        "combined into one joint distribution",
    ):  # fmt: skip
        assert part in text
    assert reader.tags.count("svg") == 3
    found = calibration(mn, test, train)
    assert reader.tags.count("circle") == len(found.bins)
    for variable in found.variables:
        right = re.search(
            re.escape(variable.name) + r"(\S+%) right(\S+%) right", text.replace("\n", "")
        )
        assert as_percent(right[1]) == pytest.approx(variable.accuracy, abs=0.006)
        assert as_percent(right[2]) == pytest.approx(variable.most_frequent, abs=0.006)
    assert "Where the conditionals disagree" in words(dn)
    bare = words(mn)
    for part in ("conditionals disagree", "How good are the predictions", "What looks odd"):
        assert part not in bare
    assert "No two columns clearly" in words(MarkovNetwork(train.domain))
    other = random_dependency_network(rng)
    with pytest.raises(ConjoinError, match="different variables"):
        write_report(mn, tmp_path / "e.html", conditionals=other)
    assert not (tmp_path / "e.html").exists()


@pytest.mark.parametrize("seed", range(4))
def test_reports_on_all_kinds_of_networks(seed):
    rng = np.random.default_rng(seed)
    domain = random_domain(rng)
    visible = random_markov_network(rng, domain)
    hidden = Domain([*domain, Variable("groups", [0, 1, 2], hidden=True)])
    terms = [
        (float(rng.normal()), {name: domain[name].states[0], "groups": k})
        for name in domain.names
        for k in range(3)
    ]
    models = [
        visible,
        random_dependency_network(rng, domain),
        random_bayesian_network(rng, domain),
        MarkovNetwork(hidden, Features.from_terms(hidden, terms)),
    ]
    codes = np.stack([rng.integers(-1, c, 50) for c in domain.cards], axis=1)
    table = Table(domain, codes)
    for model in models:
        text = words(model, table, table)
        assert f"{len(domain)}columns" in text
        assert ("hidden column with 3 states" in text) == bool(model.domain.hidden.any())
        read(html_card(model))


def measures(rng, rows=400):
    """A table of numbers, dates and states, one of them odd."""
    ill = rng.random(rows) < 0.4
    age = np.round(rng.normal(40 + 20 * ill, 6))
    dose = np.round(0.1 * age + rng.normal(0, 0.5, rows), 2)
    dose[5] = 12.5
    born = [date(2020, 1, 1) - timedelta(days=int(365 * a)) for a in age + rng.random(rows)]
    ill = np.where(ill, "<b>yes", "no")
    return pa.table({"ill": ill, "age": age, "dose": dose, "born": born})


@pytest.fixture(scope="module")
def with_numbers():
    table = as_table(measures(np.random.default_rng(0)))
    return learn_joint(table, effort="quick")[1], table


def test_a_frequent_number_is_said_as_such(tmp_path):
    """Not as a range such as "-1 to 0" or "up to 0"."""
    rng = np.random.default_rng(3)
    none = rng.random(500) < 0.45
    dose = np.where(none, 0, np.round(rng.normal(30, 8, 500)).clip(4))
    pulse = np.where(none, 0, np.round(rng.normal(90, 20, 500))) + 60.0
    model = learn_joint(pa.table({"dose": dose, "pulse": pulse}), effort="quick")[1]
    first = str(interactions(model)).splitlines()[0]
    assert "dose=0 and pulse=60" in first
    write_report(model, tmp_path / "a.html")
    text = flat(read((tmp_path / "a.html").read_text("utf-8")))
    assert "higher on average than where it is 0:" in text
    assert "up to 0" not in text and "-1 to 0" not in text


def test_reports_on_numbers(with_numbers, tmp_path):
    model, table = with_numbers
    test = as_table(measures(np.random.default_rng(7)), model.domain)
    write_report(model, tmp_path / "a.html", table, test)
    text = flat(read((tmp_path / "a.html").read_text("utf-8")))
    assert "Where ill = <b>yes, age is higher on average" in text
    low, high = np.quantile(table.column("age"), [0.2, 0.8], method="nearest").astype(int)
    words = f"Where age is {high} or more, dose is higher on average than where it is up to {low}"
    assert words in text
    ill = table.codes[:, 0] == table.domain["ill"].index("<b>yes")
    found = re.search(
        r"age is higher on average: \S+ rather than \S+\. ?In the table: (\S+) rather than (\S+)\.",
        text,
    )
    means = [table.column("age")[w].mean() for w in (ill, ~ill)]
    assert [float(x) for x in found.groups()] == pytest.approx(means, abs=0.05)
    errors = re.search(r"age ?off by (\S+?)off by ([\d.]+)", text.replace("\n", ""))
    own, simple = JointRows(model, test).number("age").mean(), table.column("age").mean()
    truth = test.column("age")
    expected = [np.sqrt(np.mean((guess - truth) ** 2)) for guess in (own, simple)]
    assert [float(x) for x in errors.groups()] == pytest.approx(expected, rel=0.01)
    odd, rows = odd_rows(Subject.of(model, table, None))
    assert rows == len(table)
    assert odd[0].row == 5
    card = flat(read(html_card(model)))
    assert "400 rows · 4 columns" in card


def test_histograms_are_those_of_the_numbers(with_numbers):
    model, table = with_numbers
    columns = {c.name: c for c in column_shares(Subject.of(model, table, None))}
    column, found = columns["age"], marginals(model)["age"]
    ends = [[int(float(end) + 0.5) for end in label.split(" to ")] for label in column.labels]
    firsts = np.array([first for first, _ in ends])  # the first age of each bar
    x = np.clip(table.column("age"), firsts[0], None)
    counts = [((x >= a) & (x < b)).sum() for a, b in pairwise([*firsts, np.inf])]
    np.testing.assert_allclose(column.table, np.array(counts) / len(table), atol=1e-9)
    below = np.array([0.0, *(found.cdf(a - 1) for a in firsts[1:].tolist()), 1.0])
    np.testing.assert_allclose(column.model, np.diff(below), atol=1e-9)
    assert columns["born"].ends[0] < columns["born"].ends[1]  # dates as ISO text
    date.fromisoformat(columns["born"].ends[0])


def test_the_ranks_of_numbers_by_hand(with_numbers):
    model, table = with_numbers
    found = calibration(model, table)
    answers, expected, inside = JointRows(model, table), np.zeros(20), 0.0
    for name in model.domain.numeric:
        rows, x = answers.number(name), table.column(name)
        for low, high in zip(rows.cdf(x, strict=True), rows.cdf(x), strict=True):
            if high - low < 1e-12:  # the mistyped dose: a point
                expected[min(int(20 * low), 19)] += 1
                inside += 0.05 < low < 0.95
                continue
            for k in range(20):
                part = min(high, (k + 1) / 20) - max(low, k / 20)
                expected[k] += max(part, 0.0) / (high - low)
            inside += max(min(high, 0.95) - max(low, 0.05), 0.0) / (high - low)
    np.testing.assert_allclose(found.ranks, expected, atol=1e-6)
    assert found.coverage(0.9) == pytest.approx(inside / expected.sum(), abs=1e-6)
    assert found.bins  # those of the states of `ill`


def test_numbers_of_which_only_states_are_known_are_states(with_numbers):
    model, table = with_numbers
    text = words(model, Table(table.domain, table.codes), None)
    assert "higher on average" not in text and "off by" not in text
    state = model.domain["age"].states[0]
    assert f"{len(model.domain['age'])} states" in text
    assert state in text


def test_gradient_boosting_is_the_rival():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(3)
    train, test = weather(rng), weather(rng)
    mn = convert(weather_network(train.domain), train)
    text = words(mn, train, test)
    assert re.search(r"gradient boosting \(scikit-learn [\d.]+, default settings\)", text)
    subject = Subject.of(mn, train, test)
    found = rival(subject.train, subject.test, ["wet"])
    _, rain, wet = test.codes.T.astype(bool)
    assert found.scores["wet"] == pytest.approx((rain == wet).mean(), abs=0.02)  # the best rule
    assert "boosting" not in words(mn, None, test)


def test_odd_cells_come_with_a_suggestion():
    rng = np.random.default_rng(5)
    domain = Domain({name: ["<i>low", "high"] for name in ("a", "b", "c", "d")})
    same = rng.integers(0, 2, 300)
    codes = np.stack([same] * 4, axis=1)
    codes[41, 2] = 1 - codes[41, 2]
    terms = [(6.0, {x: s, y: s}) for x, y in ("ab", "bc", "cd", "da") for s in domain["a"].states]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    odd, _ = odd_rows(Subject.of(mn, Table(domain, codes), None))
    assert [o.row for o in odd] == [41]
    wrong, right = (domain["c"].states[k] for k in (codes[41, 2], 1 - codes[41, 2]))
    text = words(mn, Table(domain, codes), None)
    assert re.search(rf"Row 42 ?c = {wrong}.*expected {right} \(>99", text)
    codes[41, 2] = 1 - codes[41, 2]
    assert "Nothing: in all 300 rows" in words(mn, Table(domain, codes), None)


def test_the_origin_of_a_model_is_told_in_words():
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    said = {
        "learned": {"cpd": "tree", "rows": 1234, "kappa": 0.1, "kappa_path": [[0.1, -1.0]]},
        "converted_from": "dependency network",
        "thin": {"whole_features": 6027, "of": 21877, "cells": 1.31e5, "search": "complete"},
        "weights": {"objective": "likelihood", "prior_sd": 8.0, "rows": 1234},
        "refined": {
            "chosen": "thin, 2,048 cells",
            "held_out": {"tree": -1.3, "thin, 2,048 cells": -1.2},
        },
        "table": "<a>.csv",
    }
    mn = MarkovNetwork(domain, provenance=said)
    text = words(mn)
    for part in (
        "learned from 1,234 rows of <a>.csv.", "a decision tree was learned to predict each column",
        "Only the strongest links were kept", "a network of strong links (small)",
    ):  # fmt: skip
        assert part in text
    for jargon in ("kappa", "6027", "6,027", "1.31e", "features", "prior"):
        assert jargon not in text
    assert "does not say how it was learned" in words(MarkovNetwork(domain))
    assert "1,234 rows · 2 columns" in flat(read(html_card(mn)))


def test_hostile_names_are_shown_and_not_obeyed():
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\x00"
    domain = Domain({evil: [evil, "b"], f"{evil} 2": [evil, "</style>"]})
    first, second = domain.names
    mn = MarkovNetwork(domain, Features.from_terms(domain, [(3.0, {first: evil, second: evil})]))
    table = Table(domain, np.array([[0, 0], [1, 1], [0, 0], [1, 0]] * 10))
    mn = MarkovNetwork(domain, mn.features, provenance={"table": evil, "refined": {"chosen": evil}})
    raw = page(Subject.of(mn, table, table), title=evil)
    reader = read(raw)
    assert not {"script", "img"} & set(reader.tags)
    assert "<script>alert(1)" in "".join(reader.text)
    assert "\u202e" not in raw
    assert not {"script", "img"} & set(read(html_card(mn)).tags)


def test_the_explorer_is_embedded_or_linked():
    from conjoin.views.explorer import explore

    mn = chain(3)
    inner = explore(mn).html
    raw = page(Subject.of(mn, None, None), explorer=inner)
    assert html.unescape(re.search(r'srcdoc="(.*?)"', raw, re.DOTALL)[1]) == inner
    policies = re.findall(r"script-src ('sha256-[^']+')", html.unescape(raw))
    assert len(policies) == 2
    assert len(set(policies)) == 1  # nothing but the explorer's script may run
    raw = page(Subject.of(mn, None, None), explorer="explorer.html?a=1&b=2")
    assert '<a href="explorer.html?a=1&amp;b=2">' in raw
    assert '<a href="explorer.html?a=1&amp;b=2#' in raw  # of a finding
    assert "script-src" not in raw


def test_the_report_says_that_disagreement_with_zeros_is_not_measured(tmp_path):
    domain = Domain({"a": [0, 1], "b": [0, 1]})
    cpds = [TableCPD.of(domain, n, [m], {0: 0.0, 1: 0.5}) for n, m in ("ab", "ba")]
    write_report(DependencyNetwork(domain, cpds), tmp_path / "a.html")
    assert "This was not measured" in (tmp_path / "a.html").read_text("utf-8")


def test_the_report_says_that_rows_are_impossible():
    domain = Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1]})
    zero = TableFactor((0, 1), np.array([[0.0, -np.inf], [0.0, 0.0]]))
    table = Table(domain, np.array([[0, 0, 1], [0, 1, 0], [1, 1, 0]] * 20))
    text = words(MarkovNetwork(domain, factors=[zero]), table, None)
    assert text.count("This was not measured: a row is impossible") == 2


def labelled(rng, rows=400):
    """A column that says the same as another one, a constant, missing values, and an odd row."""
    sky = rng.integers(0, 3, rows)
    rain = np.where(rng.random(rows) < 0.9, sky == 2, sky == 0)
    frame = pd.DataFrame({
        "sky": np.array(["blue", "grey", "black"])[sky],
        "sky code": np.array(["s0", "s1", "s2"])[sky],
        "planet": "Earth",
        "rain": np.where(rain, "yes", "no"),
        "wet": np.where(rain, "yes", "no"),
        "mood": np.where(rng.random(rows) < 0.8, np.where(rain, "bad", "good"), "odd"),
        "noise": rng.integers(0, 2, rows).astype(str),
    })  # fmt: skip
    frame.loc[7, "mood"] = "good" if frame.loc[7, "rain"] == "yes" else "bad"
    frame.loc[20:59, "noise"] = None
    return frame


def test_findings():
    from conjoin import learn_joint

    frame = labelled(np.random.default_rng(3))
    table = as_table(frame)
    model = learn_joint(table, effort="quick")[1]
    model = model.with_provenance({**model.provenance, "learned": {"rows": 400}})
    reader = read(page(Subject.of(model, table, None), explorer="joint.html"))
    text = flat(reader).split("In short")[-1].partition("Bars show")[0]
    assert "sky and sky code say the same; --exclude sky code would leave one out." in text
    assert "planet has the same value in all rows." in text
    assert "copies of earlier ones" in text
    assert "The oddest row is row 8: " in text
    assert "on 80 rows by a second model, which was learned quickly from 320 other rows" in text
    of_target = flat(read(page(Subject.of(model, table, None), target="rain")))
    assert "Predicted from the others, rain, " in of_target
    with pytest.raises(ConjoinError, match="no variable 'snow'"):
        write_report(model, "never.html", table, target="snow")


def test_patterns_of_missing_values():
    domain = Domain({name: [0, 1] for name in "abc"})
    codes = np.array([[0, 1, 0], [-1, -1, 0], [-1, -1, 1], [0, -1, 1], [1, 1, 1]])
    assert missing_patterns(Table(domain, codes)) == [(2, ["a", "b"]), (1, ["b"])]


def test_predictions_are_of_rows_that_were_not_learned_from():
    """Nothing predicts a coin; a model that knows the rows by heart seems to."""
    rng = np.random.default_rng(0)
    rows = 200
    codes = np.stack([np.arange(rows) % 2, np.arange(rows), rng.integers(0, 2, rows)], 1)
    domain = Domain({"a": [0, 1], "row": range(rows), "coin": [0, 1]})
    table = Table(domain, codes)
    seen = np.zeros((rows, 2)) - 9.0
    seen[codes[:, 1], codes[:, 2]] = 0.0
    by_heart = MarkovNetwork(
        domain, factors=[TableFactor((1, 2), seen)], provenance={"learned": {"rows": rows}}
    )
    accuracy = {v.name: v.accuracy for v in calibration(by_heart, table).variables}["coin"]
    made = check_held_out(Subject.of(by_heart, table, None))
    assert accuracy == 1
    assert made.score("coin").accuracy < 0.7
    assert len(made.train) == 160 and len(made.test) == 40
    shuffled = table.select(rng.permutation(rows))
    again = check_held_out(Subject.of(by_heart, shuffled, None))
    assert again.score("coin") == made.score("coin")
    assert (
        check_held_out(Subject.of(by_heart, table.select(slice(0, 40)), None)) is None
    )  # too few rows
    unlearned = MarkovNetwork(domain, factors=by_heart.factors)
    assert check_held_out(Subject.of(unlearned, table, None)).score("coin").accuracy == accuracy


def test_strengths_are_corrected_for_chance():
    rng = np.random.default_rng(4)
    domain = Domain({"a": range(12), "b": range(10), "c": range(12)})
    shares = []
    for _ in range(40):
        a = rng.integers(0, 12, 300)
        codes = np.stack([a, rng.integers(0, 10, 300), a], axis=1)
        shares.append(counted_joints(Table(domain, codes)).shares[[0, 0], [1, 2]])
    independent, same = np.mean(shares, axis=0)
    assert independent < 0.02  # raw, it would be 0.07
    assert same == pytest.approx(1)


def test_html_card():
    for model in (chain(5), weather_network(weather(np.random.default_rng(0)).domain)):
        reader = read(html_card(model))
        assert reader.tags.count("rect") == len(model.domain)
        assert "times as likely" in " ".join(reader.text)


def test_report_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = weather(np.random.default_rng(2))
    dn = weather_network(table.domain)
    from conjoin import save

    save(dn, "weather.conjoin")
    save(convert(dn, table), "joint.conjoin")
    write_table(table, "weather.csv")
    arguments = [
        "--data",
        "weather.csv",
        "--test",
        "weather.csv",
        "--conditionals",
        "weather.conjoin",
    ]
    assert main(["report", "joint.conjoin", *arguments]) == 0
    assert "joint.html: the explorer that it links to" in capsys.readouterr().out
    assert "model.conjoin" not in (tmp_path / "joint.html").read_text("utf-8")
    text = " ".join(read((tmp_path / "joint-report.html").read_text("utf-8")).text)
    assert "joint" in text
    assert "conditionals disagree" in text
    assert (
        main(["report", "joint.conjoin", "--explorer", "--title", "Rain & co", "-o", "e.html"]) == 0
    )
    assert "3 columns" in capsys.readouterr().out
    text = (tmp_path / "e.html").read_text("utf-8")
    assert "<h1>Rain &amp; co</h1>" in text
    assert "<iframe srcdoc=" in text
    for wrong, message in (
        (["joint.conjoin", "-o", "page.txt"], "must end in .html"),
        (["joint.conjoin", "-o", "page.html", "--conditionals", "joint.conjoin"], "not a Markov"),
        (["nothing.conjoin", "-o", "page.html"], "no such file"),
    ):
        assert main(["report", *wrong]) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_demo(tmp_path, capsys, monkeypatch):
    """The demo shows the commands that it runs, and ends with a page that asks a question."""
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "-o", "here"]) == 0
    lines = capsys.readouterr().out.strip().split("\n")
    shown = [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]
    assert [words[1] for words in shown] == ["learn", "query", "query", "report"]
    address = urlsplit(lines[-1])
    assert address.scheme == "file" and Path(unquote(address.path)).is_file()
    assert "island=Dream" in address.fragment
    assert "CC0" in (tmp_path / "here" / "penguins.txt").read_text("utf-8")
    answers = {}
    for words in shown:
        assert main(words[1:]) == 0
        answers[words[1]] = capsys.readouterr().out
    frame = pd.read_csv("here/penguins.csv")
    near = frame[(frame["island"] == "Dream") & (frame["bill_length_mm"] > 46)]
    share = (near["species"] == "Chinstrap").mean()
    assert main(shown[2][1:]) == 0
    found = re.search(r"Chinstrap ([\d.]+)", capsys.readouterr().out)[1]
    assert float(found) == pytest.approx(share, abs=0.1)


@pytest.mark.parametrize("absent", ["matplotlib", "networkx"])
def test_errors_name_the_package_to_install(absent, monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.split(".")[0] == absent:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    draw, extra = {"networkx": (to_networkx, "graphs"), "matplotlib": (plot, "plots")}[absent]
    with pytest.raises(ConjoinError, match=f"conjoin\\[{extra}\\]"):
        draw(chain(3))


SURVEY = "age,smokes,coughs\n" + "\n".join(
    ["young,no,no"] * 30 + ["young,yes,no"] * 12 + ["young,yes,yes"] * 8
    + ["old,no,no"] * 25 + ["old,no,yes"] * 5 + ["old,yes,yes"] * 16 + ["old,yes,no"] * 4
)  # fmt: skip


def test_from_a_csv_to_an_answer_with_two_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "survey.csv").write_text(SURVEY + "\n")
    assert main(["learn", "survey.csv", "-o", "survey.conjoin"]) == 0
    assert "100 rows of 3 variables" in capsys.readouterr().out
    assert main(["query", "survey.conjoin", "--given", "coughs=yes", "--target", "smokes"]) == 0
    answer = capsys.readouterr().out
    yes = float(re.search(r"yes ([\d.]+)", answer)[1])
    assert abs(yes - 24 / 29) < 0.1  # the share in the table
    assert "exact" in answer


def test_the_penguins_of_the_readme(tmp_path, capsys, monkeypatch):
    """The commands of the README print what it shows, except for times and the last digits.

    Where learning stops depends on rounding, and so on the machine.
    """
    readme = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
    block = re.search(r"```console\n(.*?)```", readme, re.DOTALL)[1]
    steps = re.findall(r"\$ conjoin (.*)\n((?:[^$].*\n)*)", block)
    assert [shlex.split(line)[0] for line, _ in steps] == [
        "learn",
        "query",
        "query",
        "explore",
        "report",
    ]
    (tmp_path / "penguins.csv").write_bytes((files("conjoin.cli") / "penguins.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    for line, expected in steps:
        assert main(shlex.split(line)) == 0
        got = capsys.readouterr().out
        if line.startswith("learn"):
            assert got.split(" variables")[0] == expected.split(" variables")[0]
            continue
        number = r"\d\.\d+"
        assert re.sub(number, "", got) == re.sub(number, "", expected)
        np.testing.assert_allclose(
            [float(x) for x in re.findall(number, got)],
            [float(x) for x in re.findall(number, expected)],
            atol=0.03,
        )
