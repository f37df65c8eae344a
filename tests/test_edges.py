"""Odd corners, each of which once gave a wrong answer or a wrong kind of error."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from conjoin import (
    BayesianNetwork,
    BoostedTreesCPD,
    DependencyNetwork,
    Domain,
    Features,
    JointModel,
    LogLinearCPD,
    MarkovNetwork,
    RuleCPD,
    Table,
    TableCPD,
    TreeCPD,
    Variable,
    convert,
    inconsistency,
    learn,
    load,
    read_table,
    write_table,
)
from conjoin.cli.given import parse_given
from conjoin.cli.main import main
from conjoin.data import as_table
from conjoin.errors import ConjoinError, DataError, FormatError, ModelError
from reference import all_states
from strategies import random_dependency_network


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- models -------------------------------------------------------------------------------------


def test_tables_of_a_bayesian_network_are_normalised():
    domain = Domain.numbered([2, 2])
    raw = TableCPD(domain.cards, 1, [0], np.log([[1, 1], [5, 15]]))
    bn = BayesianNetwork(domain, [TableCPD.of(domain, "v0", [], 0.7), raw])
    expected = np.log([0.15, 0.15, 0.175, 0.525])
    states = all_states(domain)
    np.testing.assert_allclose(bn.log_likelihood(states), expected)
    np.testing.assert_allclose(bn.to_markov_network().log_potential(states), expected)


def test_conditionals_with_off_values_are_not_converted_again():
    rng = np.random.default_rng(0)
    dn = random_dependency_network(rng, Domain.numbered([3, 3, 3]), kinds=("table",))
    soft = convert(dn, orders="all", max_length=0)
    again = DependencyNetwork.from_markov_network(soft)
    for refused in (convert, inconsistency):
        with pytest.raises(ModelError, match="off values"):
            refused(again)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_weights_are_numbers(wrong):
    domain = Domain.numbered([2, 2])
    with pytest.raises(ModelError, match="must be a number"):
        LogLinearCPD.of(domain, "v0", [(wrong, {"v0": 1})])


def test_very_long_features_keep_their_length():
    n = 70_000
    domain = Domain.numbered([2] * n)
    rows = np.arange(n)
    masks = np.full((n, 1), 2, np.uint64)
    features = Features.from_tests(domain.cards, np.zeros(n, np.int64), rows, masks, [1.0])
    from conjoin.conversion.base import Product
    from conjoin.conversion.expand import SubFeatures, expand_orders
    from conjoin.conversion.orders import resolve_orders

    sub = SubFeatures(features.tests)
    ones = Product.of_instance(domain, [1] * n).bind(features.tests)
    expand_orders(sub, features, np.array([0]), ones, resolve_orders(domain, "single", None, False))
    assert sorted(sub.collect(merge=True).lengths.tolist()) == [n - 1, n]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda d: LogLinearCPD.logistic(d.cards, 0, 0.0, {0: 1.0}), "other than the target"),
        (lambda d: LogLinearCPD.logistic(d.cards, 0, 0.0, {9: 1.0}), "other than the target"),
        (lambda d: LogLinearCPD.logistic(d.cards, 2, 0.0, {0: 1.0}), "binary"),
        (lambda d: BoostedTreesCPD(d.cards, 0, []), "needs a tree"),
        (lambda d: BoostedTreesCPD.of(d, "a", [[1.0, 2.0, 3.0]]), "needs 2 scores"),
        (lambda d: TreeCPD.of(d, "a", ("b", {0: 0.1, (0, 1): 0.2})), "two branches for 0"),
        (lambda d: TreeCPD.of(d, "a", ("b",)), "a split must be"),
        (lambda d: TableCPD.of(d, "a", ["b"], [[0.1, 0.9]]), "must be a mapping"),
        (lambda d: RuleCPD.of(d, "a", [({}, 0.5), ({}, 0.5)]), "put it last"),
        (lambda d: RuleCPD.of(d, "a", [({"b": []}, 0.5), ({}, 0.5)]), "needs one at least"),
        (lambda d: Domain({"a": 2}), "needs a list of states"),
        (lambda d: Domain(["a", "b"]), "made of variables"),
        (lambda d: convert(MarkovNetwork(d)), "a dependency network is needed"),
        (lambda d: inconsistency(MarkovNetwork(d)), "a dependency network is needed"),
        (lambda d: Table(d, np.array([[0, 0, 1000]])), "state number 1000"),
    ],
)
def test_what_constructors_refuse(build, message):
    with pytest.raises(ConjoinError, match=message):
        build(Domain({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}))


def test_other_domains_are_refused():
    small, large = Domain.numbered([2]), Domain.numbered([2, 3])
    cpds = [TableCPD.of(large, "v0", [], 0.5), TableCPD.of(large, "v1", [], [0.2, 0.3, 0.5])]
    with pytest.raises(ModelError, match="another domain"):
        BayesianNetwork(Domain.numbered([2, 2]), cpds)
    with pytest.raises(ModelError, match="does not have"):
        DependencyNetwork(small, cpds)


def test_logistic_beside_a_variable_of_many_states():
    domain = Domain.numbered([2, 2, 100])
    cpd = LogLinearCPD.logistic(domain.cards, 0, -1.0, {1: 2.0})
    p = np.exp(cpd.log_probabilities(np.array([[0, 1, 99]], np.uint8)))
    assert p[0, 1] == pytest.approx(1 / (1 + np.exp(-1)))


def test_conditional_needs_no_value_of_its_own():
    domain = Domain({"a": ["x", "y"], "b": ["x", "y"]})
    cpds = [
        TableCPD.of(domain, "a", ["b"], {"x": 0.2, "y": 0.6}),
        TableCPD.of(domain, "b", [], 0.5),
    ]
    dn = DependencyNetwork(domain, cpds)
    assert dn.conditional("a", {"b": "y"})[0].tolist() == pytest.approx([0.4, 0.6])
    for model in (dn, convert(dn)):
        without, given = {"b": "y"}, {"a": "x", "b": "y"}
        assert model.conditional("a", without).tolist() == model.conditional("a", given).tolist()
        with pytest.raises(DataError, match="no value for 'b'"):
            model.conditional("a", {"a": "x"})


def test_conditions_take_any_collection():
    domain = Domain({"a": [0, 1], "b": ["p", "q", ("r", 1)]})
    for states in (["p", "q"], {"p", "q"}, ("p", "q")):
        features = Features.from_terms(domain, [(1.0, {"b": states})])
        assert features.evaluate(np.array([[0, 0], [0, 1], [0, 2]], np.uint8)).tolist() == [1, 1, 0]
    features = Features.from_terms(domain, [(1.0, {"b": ("r", 1)})])
    assert features.evaluate(np.array([[0, 2]], np.uint8)).tolist() == [1]


# ---- conversion -----------------------------------------------------------------------------------


def test_merge_is_an_option_of_every_path():
    domain = Domain.numbered([2, 2])
    cpds = [LogLinearCPD.logistic(domain.cards, i, 0.1, {1 - i: 1.0}) for i in range(2)]
    dn = DependencyNetwork(domain, cpds)
    plain, merged = convert(dn, merge=False), convert(dn)
    assert len(plain.features) > len(merged.features)
    states = all_states(domain)
    a, b = plain.log_potential(states), merged.log_potential(states)
    np.testing.assert_allclose(a - a[0], b - b[0], atol=1e-12)


def test_instances_without_weight_are_refused():
    dn = random_dependency_network(np.random.default_rng(1), Domain.numbered([2, 2]))
    with pytest.raises(ModelError, match="no weight"):
        convert(dn, Table(dn.domain, [[0, 1]], weights=[0.0]), base="data")
    with pytest.raises(ModelError, match="with rows"):
        convert(dn, Table(dn.domain, np.zeros((0, 2), np.uint8)))


def test_all_orders_are_counted_before_they_are_written():
    n = 40
    domain = Domain.numbered([2] * n)
    cpds = [TableCPD.of(domain, f"v{i}", [], 0.5) for i in range(1, n)]
    cpds.append(LogLinearCPD.of(domain, "v0", [(1.0, {f"v{i}": 1 for i in range(n)})]))
    dn = DependencyNetwork(domain, cpds)
    with pytest.raises(ModelError, match="a smaller max_length"):
        convert(dn, orders="all", max_length=n)
    assert len(convert(dn, orders="all").features) > 0


def test_estimated_inconsistency_is_near_the_exact_one():
    rng = np.random.default_rng(4)
    dn = random_dependency_network(rng, Domain.numbered([2, 3, 2, 2]), kinds=("table",))
    exact = inconsistency(dn)
    assert exact.complete
    pairs = inconsistency(dn, max_size=2)
    # 2,048 rows: a few per cent.
    assert pairs.total == pytest.approx(exact.total, rel=0.1)
    assert pairs.by_variable == pytest.approx(exact.by_variable, rel=0.2)
    many = inconsistency(dn, max_size=2, rows=200_000)
    assert many.total == pytest.approx(exact.total, rel=0.01)
    with pytest.raises(ModelError, match="rows must be 1 or more"):
        inconsistency(dn, rows=0)


def test_inconsistency_needs_every_state():
    dn = random_dependency_network(np.random.default_rng(3), Domain.numbered([2, 2]))
    with pytest.raises(ModelError, match="every state is possible"):
        inconsistency(dn, base={"v0": 0, "v1": 0})


def test_opinions_have_the_size_of_what_is_said():
    domain = Domain({"a": [1, 2, 3], "b": [1, 2, 3]})
    one = np.outer([1, -1, 0], [1, -1, 0]).astype(float)
    two = np.outer([1, 1, -2], [1, 1, -2]) / 3
    dn = DependencyNetwork(
        domain, [TableCPD(domain.cards, 0, [1], one.T), TableCPD(domain.cards, 1, [0], two)]
    )
    (pair,) = inconsistency(dn).interactions
    # Each is already free of main effects; its size is its root mean square over the nine states.
    assert pair.opinions == pytest.approx({"a": 2 / 3, "b": 2 / 3})


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tests", ["+v0_1 +v1_1", "+v1_1 +v0_1"])
def test_certain_conjunctions_bind_the_target(tests, tmp_path):
    text = f"2,2\nDN {{\nv0 {{\n0.5 +v0_1\n}}\nv1 {{\ninf {tests}\n}}\n}}\n"
    dn = load(write(tmp_path, "m.dn", text))
    assert dn.conditional("v1", np.array([[0, 0], [1, 0]], np.uint8)).tolist() == [
        [0.5, 0.5],
        [0, 1],
    ]


def test_splits_on_one_state(tmp_path):
    text = "1,2\nMN {\ntree {\n(v0_0 (v1_1 1 0) (v1_1 3 0))\n}\n}\n"
    mn = load(write(tmp_path, "m.mn", text))
    states = all_states(mn.domain)
    assert mn.log_potential(states).tolist() == [0, 1]
    assert mn.to_features().log_potential(states).tolist() == [0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "2\nMN {\ntable {\ntree {\n(v0_1 5 0)\n}\n}\n}\n",
        "2\nMN {\n" + "table {\n" * 2000,
        "2\nMN {\ntree {\n(v0_1 inf 0)\n}\n}\n",
    ],
)
def test_what_libra_files_may_not_hold(text, tmp_path):
    with pytest.raises(FormatError, match="only features|inf"):
        load(write(tmp_path, "m.mn", text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.data", "10, ,2\n", "column 2"),
        ("t.data", "*1,10\n", "column 1"),
        ("t.data", "1|\n", "no values after the weight"),
        ("t.data", "1|0,1\n\n2|0,x\n", "t.data:3: "),
        ("t.csv", "\na,b\n1,2\n", "name the columns"),
        ("t.csv", 'a,b\n1,"x\n2,y\n', "never closed"),
        ("t.csv", "a;b\n1;2\n", "separated by commas"),
        ("t.csv", "a" * 200_000 + ",b\n1,2\n", "header cannot be read"),
        ("m.bif", 'network x { property "see http://x" ; }\n', None),
        (
            "m.uai",
            "MARKOV\n65\n" + "1 " * 65 + "\n1\n65 " + " ".join(map(str, range(65))),
            "0 to 64",
        ),
    ],
)
def test_odd_files(name, text, message, tmp_path):
    path = write(tmp_path, name, text)
    read = read_table if name.startswith("t.") else load
    if message is None:
        assert len(read(path).domain) == 0
        return
    with pytest.raises(FormatError, match=message):
        read(path)


def test_carriage_returns_alone_end_lines(tmp_path):
    assert read_table(write(tmp_path, "t.csv", "a,b\r1,x\r2,y\r")).codes.tolist() == [
        [0, 0],
        [1, 1],
    ]


def test_blanks_around_cells(tmp_path):
    table = read_table(write(tmp_path, "t.csv", "a, b\nx , p\nx,p\n y,?\n"))
    assert table.domain == Domain({"a": ["x", "y"], "b": ["p"]})
    assert table.codes.tolist() == [[0, 0], [0, 0], [1, 255]]


def test_truth_values_in_any_case(tmp_path):
    domain = Domain({"a": [False, True]})
    path = write(tmp_path, "t.csv", "a\ntrue\nFALSE\nTrue\n")
    assert read_table(path, domain).codes.tolist() == [[1], [0], [1]]


def test_parquet_corners(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"a": [1.0, None, 2.0]}), path)
    assert read_table(path, Domain({"a": [1, 2]})).codes.tolist() == [[0], [255], [1]]
    parquet.write_table(pa.table({"a": [[1], [2]]}), path)
    with pytest.raises(FormatError, match="cannot be states"):
        read_table(path)
    small = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint8()), ["x", "y"])
    parquet.write_table(pa.table({"a": small}), path)
    assert read_table(path).codes.tolist() == [[0], [255], [1]]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 255
    for damaged in (bytes(raw), bytes(raw[:-10])):
        path.write_bytes(damaged)
        try:
            read_table(path)
        except FormatError as error:
            assert "Parquet" in str(error) or "column" in str(error)


def test_csv_refuses_what_it_would_lose(tmp_path):
    weighted = Table(Domain.numbered([2]), [[0]], weights=[2.0])
    with pytest.raises(FormatError, match="weights"):
        write_table(weighted, tmp_path / "t.csv")
    for states in (["NA", "x"], ["?", "x"], [1, "1"]):
        with pytest.raises(FormatError, match="missing value"):
            write_table(Table(Domain({"a": states}), [[0]]), tmp_path / "t.csv")


def test_data_keeps_states_that_no_row_has(tmp_path):
    domain = Domain.numbered([3, 1])
    write_table(Table(domain, [[0, 0], [1, 0]]), tmp_path / "t.data")
    assert read_table(tmp_path / "t.data").domain == domain
    with pytest.raises(FormatError, match="without rows"):
        write_table(Table(domain, np.zeros((0, 2), np.uint8)), tmp_path / "t.data")


def test_labels_are_checked_before_anything_is_written(tmp_path):
    path = tmp_path / "m.mn"
    MarkovNetwork(Domain({"a": ["x", "y"]})).save(path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match="frozenset"):
        MarkovNetwork(Domain({"a": [frozenset("a"), frozenset("b"), frozenset("c")]})).save(path)
    assert path.read_bytes() == before
    assert load(path).domain == Domain({"a": ["x", "y"]})


def test_links_stay_links(tmp_path):
    (tmp_path / "link.mn").symlink_to(tmp_path / "real.mn")
    MarkovNetwork(Domain.numbered([2])).save(tmp_path / "link.mn")
    assert (tmp_path / "link.mn").is_symlink()
    assert len(load(tmp_path / "real.mn").domain) == 1


def test_infinite_states(tmp_path):
    domain = Domain({"a": [float("inf"), 1.0]})
    MarkovNetwork(domain).save(tmp_path / "m.conjoin")
    assert load(tmp_path / "m.conjoin").domain == domain


def test_small_log_values_do_not_vanish_in_uai(tmp_path):
    domain = Domain.numbered([2])
    terms = [(-800.0, {"v0": 1}), (-801.0, {"v0": 0})]
    mn = MarkovNetwork(domain, Features.from_terms(domain, terms))
    mn.save(tmp_path / "m.uai")
    p = load(tmp_path / "m.uai").conditional("v0", {"v0": 0})[0]
    assert p == pytest.approx([1 / (1 + np.e), np.e / (1 + np.e)])


def test_models_without_variables(tmp_path):
    empty = MarkovNetwork(Domain.numbered([2])).condition({"v0": 1})
    empty.save(tmp_path / "m.conjoin")
    assert len(load(tmp_path / "m.conjoin").domain) == 0
    with pytest.raises(FormatError, match="without variables"):
        empty.save(tmp_path / "m.mn")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("indices", lambda f: f.indices * 0),
        ("weights", lambda f: f.weights * np.nan),
        ("weights", lambda f: f.weights + np.inf),
        ("indptr", lambda f: f.indptr[::-1].copy()),
        ("indptr", lambda f: f.indptr + 1),
        ("indices", lambda f: f.indices + 99),
        ("indices", lambda f: f.indices[::-1].copy()),
    ],
)
def test_native_checks_features(part, value, tmp_path):
    domain = Domain.numbered([2, 2])
    features = Features.from_terms(domain, [(1.0, {"v0": 1, "v1": 1}), (2.0, {"v0": 1, "v1": 0})])
    changed = Features(**{**features.__dict__, part: value(features)})
    mn = MarkovNetwork(domain, changed)
    mn.save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


@pytest.mark.parametrize("mask", [[[0], [2]], [[3], [2]], [[4], [2]], [[2], [1]]])
def test_native_checks_tests(mask, tmp_path):
    domain = Domain.numbered([2])
    features = Features.from_terms(domain, [(1.0, {"v0": 0}), (2.0, {"v0": 1})])
    features.tests.mask[:] = np.array(mask, np.uint64)
    MarkovNetwork(domain, features).save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("child", [1, 1, 2, 3]),
        ("child", [1, 0, 2, 3]),
        ("ptr", [0, 0, 0, 1, 2]),
        ("value", [np.nan] * 3),
    ],
)
def test_native_checks_trees(part, value, tmp_path):
    domain = Domain.numbered([2, 2])
    cpds = [
        TreeCPD.of(domain, "v0", 0.5),
        TableCPD.of(domain, "v1", [], 0.5),
    ]
    dn = DependencyNetwork(domain, cpds)
    from conjoin.models.markov import TreeFactor
    from conjoin.models.tree import Tree

    good = {
        "var": [0, 1, -1, -1, -1],
        "ptr": [0, 2, 0, 1, 2],
        "child": [1, 4, 2, 3],
        "value": [1, 2, 3],
    }
    good[part] = value
    arrays = [np.array(good[k], np.int32) for k in ("var", "ptr", "child")]
    tree = Tree(*arrays, np.array(good["value"], float))
    mn = MarkovNetwork(dn.domain, factors=[TreeFactor(tree)])
    mn.save(tmp_path / "m.conjoin")
    with pytest.raises(FormatError, match="damaged"):
        load(tmp_path / "m.conjoin")


# ---- bounded time and memory ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.mn", ",".join(["65534"] * 200) + "\nMN {\n}\n"),
        ("m.dn", "20" + ",2" * 19 + "\nDN {\nv0 {\ntree {\n"
         + "".join(f"(v0_{k} (v{k + 1} 0 1) " for k in range(19)) + "0" + ")" * 19 + "\n}\n}\n"),
        ("m.mn", "65534\nMN {\ntree {\n" + "(v0_1 1 " * 1600 + "2" + ")" * 1600 + "\n}\n}\n"),
        ("m.mn", ",".join(["2"] * 22) + "\nMN {\n"
         + ("table {\n1 " + " ".join(f"+v{i}_1" for i in range(22)) + "\n}\n") * 50 + "}\n"),
        ("t.csv", ",".join(f"c{i}" for i in range(5000)) + "\n" + ",".join("1" * 5000) + "\n"),
        ("m.mn.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0" * 100_000),
    ],
)  # fmt: skip
def test_small_files_take_little_time(name, text, tmp_path):
    path = write(tmp_path, name, text)
    start = time.process_time()
    try:
        (read_table if name.startswith("t.") else load)(path)
    except FormatError as error:
        assert str(path) in str(error)
    assert time.process_time() - start < 120  # all take a second or less; one took minutes


# ---- what people bring --------------------------------------------------------------------------


def test_columns_of_many_numbers_are_cut_before_they_are_counted(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=70_000)
    frame = pd.DataFrame({"x": x, "y": np.where(rng.random(70_000) < 0.9, x > 0, x < 0)})
    for how in ("quantile:4", {"x": [0.0]}):
        dn = learn(frame, "tree", discretize=how)
        assert len(dn.domain["x"]) == (4 if how == "quantile:4" else 2)
    # The cut is exact: the numbers below zero are in the first bin.
    assert (as_table(frame, dn.domain).codes[:, 0] == (x >= 0)).all()
    assert len(JointModel("tree", refine=False).fit(frame).domain_["x"]) == 5
    with pytest.raises(DataError, match=r"'x' has 70,000 states.*discretize"):
        learn(frame, "tree")
    frame.to_csv(tmp_path / "x.csv", index=False)
    command = ["learn", str(tmp_path / "x.csv"), "-o", str(tmp_path / "x.conjoin")]
    command += ["--cpd", "tree", "--closed-form"]
    assert main(command) == 1
    assert main([*command, "--discretize", "quantile:4"]) == 0


@pytest.mark.parametrize("states", [[1, True], [0.0, False, 2], [1, 1.0]])
def test_equal_states_are_refused(states):
    with pytest.raises(DataError, match="which are equal"):
        Domain({"a": states})


def test_equal_states_of_a_frame_are_refused():
    with pytest.raises(DataError, match="'a'.*True and 1, which are equal"):
        as_table(pd.DataFrame({"a": pd.Series([True, 1, "x"] * 3, dtype=object)}))


def test_numbers_are_found_by_their_value():
    whole, broken = Variable("a", [1, 2]), Variable("a", [1.0, 2.5, "x"])
    assert [whole.index(v) for v in (1, 2.0, np.float32(1), np.int8(2))] == [0, 1, 0, 1]
    assert [broken.index(v) for v in (2.5, np.float64(2.5), "x")] == [1, 1, 2]
    for odd in (True, "1", 1.5):
        with pytest.raises(DataError, match="no state"):
            whole.index(odd)


def test_numbers_are_found_by_their_value_in_evidence():
    frame = pd.DataFrame({"x": ["a", "b", "b"] * 30, "y": [1, 2, None] * 30})
    model = JointModel("tree").fit(frame)
    assert model.marginals({"y": 1})["x"]["a"] == model.marginals({"y": 1.0})["x"]["a"] > 0.5


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame(index=range(3)), "no columns"),
        (pd.DataFrame({"a": [1, 2]}).head(0), "no rows"),
        (pd.DataFrame({"a": [1, 2], "b": [[1], [2]]}), r"column 'b' holds \[1\], a list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
        (pd.DataFrame({"a": [1, 2], "b": [None, None]}), "'b' has no values.*leave it out"),
    ],
)
def test_frames_without_anything_to_learn(frame, said):
    with pytest.raises(DataError, match=said):
        JointModel("tree").fit(frame)


def test_row_numbers_in_a_csv_are_pointed_out(tmp_path):
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "i.csv")
    with pytest.raises(FormatError, match=r"i\.csv:1: column 1 has no name.*index=False"):
        read_table(tmp_path / "i.csv")


def test_true_is_true_in_any_case():
    domain = Domain({"a": [False, True], "b": ["TRUE", "maybe"]})
    assert parse_given("a=true,b=true", domain) == {"a": True, "b": "TRUE"}
    with pytest.raises(DataError, match="no state 'yes'"):
        parse_given("a=yes", domain)


def test_marks_of_missing_values(tmp_path):
    marks = ["", "?", "*", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "None", "NULL", "null"]
    text = "a,b\n" + "".join(f"{mark},x\n" for mark in marks) + "none,y\n"
    table = read_table(write(tmp_path, "m.csv", text))
    assert table.domain["a"].states == ("none",)
    assert (table.codes[:, 0] == table.missing).tolist() == [True] * len(marks) + [False]
