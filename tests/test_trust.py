"""Files, terminals and models that are not what they should be."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import conjoin
from conjoin import BayesianNetwork, ConjoinError, Domain, MarkovNetwork, TableCPD
from conjoin.data import shown
from conjoin.errors import FormatError, ModelError
from conjoin.formats import plain_float, read_bytes, write_bytes
from conjoin.models import TableFactor

EVIL = "\x1b[31mred\x07\x9b2J\u202e\n"


def two(*, states=("no", "yes")):
    return Domain({"a": list(states), "b": ["x", "y"]})


# ---- reading -----------------------------------------------------------------------------------


def run_limited(code, *arguments, megabytes):
    """Run Python code under a limit on its address space."""
    limit = megabytes << 20

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        preexec_fn=limited, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.skipif(
    sys.platform != "linux", reason="limits of the address space are tested on Linux"
)
@pytest.mark.parametrize("name", ["small.toml", "small.toml.gz", "pipe"])
def test_reading_reserves_no_more_than_the_file_needs(tmp_path, name):
    path = tmp_path / name
    if name == "pipe":
        os.mkfifo(path)
        writer = threading.Thread(target=path.write_bytes, args=(b"x" * 1000,))
        writer.start()
    else:
        write_bytes(path, b"x" * 1000)
    code = (
        "import sys; from pathlib import Path; from conjoin.formats.storage import read_bytes\n"
        "print(len(read_bytes(Path(sys.argv[1]))))"
    )
    done = run_limited(code, path, megabytes=1000)
    assert done.stdout.strip() == "1000", done.stderr


def test_reading_stops_at_its_limit(tmp_path):
    for name in ("a", "a.gz"):
        path = tmp_path / name
        write_bytes(path, b"0" * 3_000_000)
        assert len(read_bytes(path, 3_000_000)) == 3_000_000
        with pytest.raises(FormatError, match="larger than the limit of 2,999,999 bytes"):
            read_bytes(path, 2_999_999)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.uai", "MARKOV 500 " + " ".join(str(60_000 + i) for i in range(500)) + " 0\n"),
        ("a.mn", ",".join(str(60_000 + i) for i in range(500)) + "\nMN {\n}\n"),
        ("a.data", ",".join(str(60_000 + i) for i in range(500)) + "\n"),
        ("a.toml", "[variables]\n" + ".".join(["a"] * 30_000) + " = 1\n"),
        ("b.toml", "[" + " . ".join(['"a b"'] * 10_000) + "]\n"),
    ],
)
def test_small_files_that_would_cost_much_are_refused(tmp_path, name, text, monkeypatch):
    path = tmp_path / name
    path.write_text(text)
    read = conjoin.read_table if name.endswith(".data") else conjoin.load
    with pytest.raises(FormatError, match="the limit is .*; raise it with CONJOIN_MAX_"):
        read(path)
    monkeypatch.setenv("CONJOIN_MAX_STATES", "many")
    if not name.endswith(".toml"):
        with pytest.raises(ModelError, match="CONJOIN_MAX_STATES must be a whole number"):
            read(path)


def test_limits_can_be_raised(tmp_path, monkeypatch):
    path = tmp_path / "a.mn"
    path.write_text("3,4\nMN {\n1 +v0_1\n}\n")
    monkeypatch.setenv("CONJOIN_MAX_STATES", "6")
    with pytest.raises(FormatError, match="7 states; the limit is 6"):
        conjoin.load(path)
    monkeypatch.setenv("CONJOIN_MAX_STATES", "7")
    assert conjoin.load(path).domain.cards.tolist() == [3, 4]


def test_many_variables_of_the_same_large_size_share_their_states(tmp_path):
    path = tmp_path / "a.uai"
    path.write_text("MARKOV 5000 " + " ".join(["60000"] * 5000) + " 0\n")
    assert conjoin.load(path).domain.cards.sum() == 300_000_000


def test_a_certain_feature_of_many_tests_has_linear_size(tmp_path):
    count = 4000
    path = tmp_path / "a.mn"
    tests = " ".join(f"+v{i}_1" for i in range(count))
    path.write_text(",".join(["2"] * count) + "\nMN {\ninf " + tests + "\n}\n")
    network = conjoin.load(path)
    assert len(network.features.indices) == count
    assert network.log_potential(np.ones((1, count), np.uint8)) == 0
    rows = np.ones((2, count), np.uint8)
    rows[0, 7] = rows[1, count - 1] = 0
    assert np.isneginf(network.log_potential(rows)).all()


# ---- writing -----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_saving_keeps_the_permissions_of_a_file(tmp_path, mode):
    path = tmp_path / "model.conjoin"
    write_bytes(path, b"one")
    path.chmod(mode)
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_new_files_have_the_usual_permissions(tmp_path):
    (tmp_path / "by_python").write_bytes(b"")
    write_bytes(tmp_path / "ours", b"")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_threads_save_to_one_path_and_leave_nothing_behind(tmp_path):
    path = tmp_path / "model.conjoin"
    (tmp_path / f".model.conjoin.{os.getpid()}.tmp").write_bytes(b"left by a crash")
    failures = []

    def save(content):
        try:
            for _ in range(25):
                write_bytes(path, content)
        except Exception as error:
            failures.append(error)

    contents = [bytes([65 + i]) * 5000 for i in range(8)]
    threads = [threading.Thread(target=save, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert path.read_bytes() in contents
    assert len(list(tmp_path.iterdir())) == 2


def test_names_as_long_as_the_system_allows_can_be_saved(tmp_path):
    path = tmp_path / ("n" * 247 + ".conjoin")
    write_bytes(path, b"one")
    assert path.read_bytes() == b"one"


# ---- distributions -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 0.5], [0.6, 0.5], [0.5, 0.4998]])
def test_a_bayesian_network_refuses_rows_that_are_not_distributions(row):
    domain = two()
    with np.errstate(divide="ignore"), pytest.raises(ModelError, match="distribution|NaN"):
        table = np.log([[0.5, 0.5], row])
        a = TableCPD.of(domain, "a", [], 0.5)
        BayesianNetwork(domain, [a, TableCPD(domain.cards, 1, [0], table)])


def test_a_bayesian_network_warns_of_rows_that_nearly_sum_to_one():
    domain = two()
    a = TableCPD.of(domain, "a", [], 0.5)
    with pytest.warns(UserWarning, match="'b' sum to 0.99995 instead of 1"):
        rough = BayesianNetwork(
            domain, [a, TableCPD(domain.cards, 1, [0], np.log([[0.5, 0.5], [0.5, 0.49995]]))]
        )
    assert conjoin.marginals(rough, {"a": "yes"})["b"]["x"] == pytest.approx(
        0.5 / 0.99995, abs=1e-12
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        third = np.log([[0.3333333, 0.6666666], [0.5, 0.5]])
        BayesianNetwork(domain, [a, TableCPD(domain.cards, 1, [0], third)])


def test_libra_files_of_bayesian_networks_need_distributions(tmp_path):
    path = tmp_path / "model.bn"
    half = "-0.6931471805599453"
    text = (
        "2,2\nBN {\nv0 {\ntable {\n%s +v0_0\n%s +v0_1\n}\n}\n"
        f"v1 {{\ntable {{\n{half} +v1_0\n{half} +v1_1\n}}\n}}\n}}\n"
    )
    path.write_text(text % (half, half))
    assert conjoin.marginals(conjoin.load(path))["v0"][0] == pytest.approx(0.5)
    for values in (("-inf", "-inf"), ("0", "0"), ("-0.7", "-0.2")):
        path.write_text(text % values)
        with pytest.raises(FormatError, match="every row must be a distribution"):
            conjoin.load(path)


def test_bif_files_need_distributions(tmp_path):
    path = tmp_path / "model.bif"
    text = (
        "network n {}\nvariable a { type discrete [ 2 ] { no, yes }; }\n"
        "probability ( a ) { table %s; }\n"
    )
    path.write_text(text % "0.5, 0.49995")
    with pytest.warns(UserWarning, match="do not sum to 1 exactly"):
        network = conjoin.load(path)
    assert conjoin.marginals(network)["a"]["no"] == pytest.approx(0.5 / 0.99995)
    for wrong in ("0.5, 0.49", "0, 0", "1_0, 0", "٠, ١"):
        path.write_text(text % wrong)
        with pytest.raises(FormatError, match="sum to|expected a probability"):
            conjoin.load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_tables_refuse_values_that_are_not_numbers(value):
    domain = two()
    with pytest.raises(ModelError, match="NaN or infinite"):
        MarkovNetwork(domain, factors=[TableFactor((0,), np.array([0.0, value]))])
    with pytest.raises(ModelError, match="NaN or infinite"):
        TableCPD(domain.cards, 0, [], [0.0, value])


# ---- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["1_0", "٣", "1٣", "x", "", "１"])
def test_only_ascii_digits_are_numbers(tmp_path, word):
    with pytest.raises(ValueError, match="not"):
        plain_float(word)
    files = {
        "a.mn": f"2,2\nMN {{\n{word or 'x'} +v0_1\n}}\n",
        "b.mn": f"{word or 'x'},2\nMN {{\n1 +v1_1\n}}\n",
        "c.mn": f"2,2\nMN {{\n1 +v{word or 'x'}_1\n}}\n",
        "a.uai": f"MARKOV 1 2 1 1 0 2 {word or 'x'} 1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError):
            conjoin.load(path)
    path = tmp_path / "weights.data"
    path.write_text(f"{word or 'x'}|0,1\n", encoding="utf-8")
    with pytest.raises(FormatError, match="weight"):
        conjoin.read_table(path)


# ---- terminals ---------------------------------------------------------------------------------


def harmless(text):
    return all(c.isprintable() or c == "\n" for c in text)


def evil_network():
    domain = Domain({EVIL + "1": [EVIL, "b"], EVIL + "2": ["c", EVIL]})
    return BayesianNetwork(domain, [
        TableCPD.of(domain, EVIL + "1", [], 0.5),
        TableCPD.of(domain, EVIL + "2", [EVIL + "1"], {EVIL: 0.2, "b": 0.9}),
    ])  # fmt: skip


def test_printed_answers_do_not_control_the_terminal():
    network = evil_network()
    known = {EVIL + "2": "c"}
    answers = [
        conjoin.marginals(network, known),
        conjoin.probability(network, {EVIL + "1": EVIL}, known),
        conjoin.most_probable(network),
        conjoin.joint.interactions(network),
        network,
        network.domain,
    ]
    for answer in answers:
        assert harmless(str(answer)), repr(str(answer))
        assert harmless(repr(answer))
    assert "\\x1b[31mred" in str(answers[0])


@pytest.mark.parametrize(
    "words", [["info"], ["info", "--json"], ["query"], ["query", "--map"], ["query", "--json"]]
)
def test_commands_do_not_control_the_terminal(tmp_path, words, capsys):
    from conjoin.cli.main import main

    path = tmp_path / "model.conjoin"
    conjoin.save(evil_network(), path)
    assert main([words[0], str(path), *words[1:]]) == 0
    printed = capsys.readouterr()
    assert harmless(printed.out + printed.err)
    assert main(["query", str(path), "--given", "nothing=1"]) == 1
    assert harmless(capsys.readouterr().err)


def test_ordinary_labels_are_shown_as_they_are():
    for label in ("naïve café", "数据", "a b", "∞", 3, True, None):
        assert shown(label) == str(label)


def test_damaged_headers_are_reported_briefly(tmp_path):
    path = tmp_path / "model.conjoin"
    domain = Domain({f"column number {i}": ["a", "b"] for i in range(2000)})
    conjoin.save(MarkovNetwork(domain), path)
    raw = bytearray(path.read_bytes())
    for position in (30, 200, 5000):
        damaged = raw.copy()
        damaged[position] = 0xFF
        path.write_bytes(damaged)
        with pytest.raises(FormatError) as caught:
            conjoin.load(path)
        assert len(str(caught.value)) < 400


def test_an_interrupt_while_a_command_is_imported_is_one_line(monkeypatch, capsys):
    import conjoin.cli.main as cli

    def interrupted(_words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_parser", interrupted)
    assert cli.main(["info", "x"]) == 130
    assert capsys.readouterr().err == "conjoin: interrupted\n"


def test_every_limit_is_documented():
    from pathlib import Path

    from conjoin.formats import LIMITS, PREFIX

    page = Path(__file__).parent.parent / "docs" / "reference" / "formats.md"
    if not page.is_file():
        pytest.skip("the documentation is not beside the tests")
    text = page.read_text(encoding="utf-8")
    for limit in LIMITS:
        assert f"`{PREFIX}{limit.name}` | {limit.default:,} {limit.counted.split()[0]}" in text


# ---- tables ------------------------------------------------------------------------------------


def test_formulas_can_be_defused(tmp_path):
    from conjoin import Table
    from conjoin.formats import write_filled

    domain = Domain({"=name": ["=1+1", "-2", "+x", "@SUM(a, b)", "a=b"], "n": [-1.5, 2.5]})
    table = Table(domain, [[0, 0], [1, 1], [2, 0], [3, 1], [4, 0]])
    plain, safe = tmp_path / "plain.csv", tmp_path / "safe.csv"
    conjoin.write_table(table, plain)
    conjoin.write_table(table, safe, defuse=True)
    assert plain.read_text().splitlines()[1] == "=1+1,-1.5"
    assert safe.read_text().splitlines() == [
        "'=name,n", "'=1+1,-1.5", "-2,2.5", "'+x,-1.5", "\"'@SUM(a, b)\",2.5", "a=b,-1.5",
    ]  # fmt: skip
    write_filled(plain, table, {"n": np.zeros(5, bool)}, tmp_path / "filled.csv", defuse=True)
    assert (tmp_path / "filled.csv").read_text() == safe.read_text()


def test_commands_defuse_formulas(tmp_path):
    from conjoin.cli.main import main

    network = MarkovNetwork(Domain({"a": ["=cmd", "b"]}))
    conjoin.save(network, tmp_path / "m.conjoin")
    out = tmp_path / "rows.csv"
    assert (
        main(["sample", str(tmp_path / "m.conjoin"), "-n", "40", "-o", str(out), "--defuse"]) == 0
    )
    assert set(out.read_text().split()) == {"a", "'=cmd", "b"}


def test_text_in_parquet_files_must_be_utf8(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    offsets = pa.py_buffer(np.array([0, 1, 2, 3], np.int32))
    wrong = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffb")])
    parquet.write_table(pa.table({"x": wrong, "y": [1, 2, 1]}), tmp_path / "x.parquet")
    with pytest.raises(FormatError, match="not UTF-8"):
        conjoin.read_table(tmp_path / "x.parquet")


def test_parquet_files_of_equal_cells_are_limited(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({c: np.zeros(100_000, np.int64) for c in "abc"}), path)
    monkeypatch.setenv("CONJOIN_MAX_BYTES", "2000000")
    with pytest.raises(FormatError, match="100,000 rows of 3 columns, which take 2,400,000 bytes"):
        conjoin.read_table(path)
    monkeypatch.setenv("CONJOIN_MAX_BYTES", "2400000")
    assert len(conjoin.read_table(path)) == 100_000


def test_long_lines_of_csv_files_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "x" * 5_000_000 + ",1\ny,2\ny,1\n")
    table = conjoin.read_table(path)
    assert len(table) == 3
    assert {len(state) for state in table.domain["a"].states} == {1, 5_000_000}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize(("columns", "rows"), [(100_000, 2), (40_000, 40)])
def test_tables_of_many_columns_take_memory_in_proportion(tmp_path, columns, rows):
    path = tmp_path / "wide.csv"
    lines = [",".join(f"c{i}" for i in range(columns))]
    lines += [
        ",".join("01"[(i * r + r) % 3 % 2] for i in range(columns)) for r in range(1, rows + 1)
    ]
    path.write_text("\n".join(lines) + "\n")
    code = (
        "import re, sys, warnings, conjoin; warnings.simplefilter('ignore')\n"
        "table = conjoin.read_table(sys.argv[1])\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(*table.codes.shape, peak)"
    )
    done = run_limited(code, path, megabytes=4000)
    assert done.returncode == 0, done.stderr
    found_rows, found_columns, kilobytes = map(int, done.stdout.split())
    assert (found_rows, found_columns) == (rows, columns)
    assert kilobytes < 150_000 + columns * 3 + columns * rows / 10


def test_tables_of_many_columns_are_read_like_others(tmp_path):
    from conjoin.formats import Blocks, read_csv

    small = Blocks(usual=1, bytes_per_column=256, columns=7)
    rng = np.random.default_rng(0)
    path = tmp_path / "x.csv"
    states = np.array(["a", "b", '"c, d"', "", "NA", '"NA"'])
    cells = states[rng.integers(0, 6, (200, 30))]
    path.write_text("\n".join([",".join(f"c{i}" for i in range(30)), *map(",".join, cells)]) + "\n")
    usual, parts = read_csv(path), read_csv(path, blocks=small)
    assert [column.name for column in parts] == [f"c{i}" for i in range(30)]
    for one, other in zip(usual, parts, strict=True):
        assert one.name == other.name and [*one.labels] == [*other.labels]
        np.testing.assert_array_equal(one.codes, other.codes)
    path.write_text(path.read_text() + "a,b\n")
    with pytest.raises(FormatError, match="202: 2 values, but the header has 30"):
        read_csv(path, blocks=small)


def test_a_line_that_is_too_long_is_an_error_with_advice(tmp_path):
    from conjoin.formats import Blocks, read_csv

    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "x" * 6_000_000 + ",1\ny,2\ny,1\n")
    with pytest.raises(FormatError, match="a line is longer than 2,000,000 bytes") as caught:
        read_csv(path, blocks=Blocks(largest=2_000_000))
    assert "quotation mark may be missing" in str(caught.value)
    assert "block" not in str(caught.value)


def test_learning_from_too_many_columns_says_what_to_do(monkeypatch):
    from conjoin.joint import dependence_tree, learn_joint

    monkeypatch.setattr(dependence_tree, "memory_limit", lambda: 1e4)
    rows = np.random.default_rng(0).integers(0, 2, (60, 12))
    with pytest.raises(conjoin.ConjoinError, match="12 columns with 24 states .* --closed-form"):
        learn_joint(rows)
    _, joint = learn_joint(rows, closed_form=True, n_jobs=1)
    assert len(joint.domain) == 12


# ---- memory ------------------------------------------------------------------------------------


@pytest.mark.skipif(
    sys.platform != "linux", reason="limits of the address space are tested on Linux"
)
def test_a_lack_of_memory_is_a_clear_error(tmp_path):
    """A network of 256 MB is asked and saved, and its file is read, with less than that left."""
    path = tmp_path / "large.conjoin"
    code = """
import resource, sys, numpy as np, conjoin
from pathlib import Path
from conjoin.models.markov import TableFactor
small = conjoin.MarkovNetwork(conjoin.Domain({"a": [0, 1]}))
conjoin.save(small, sys.argv[1])
conjoin.marginals(conjoin.load(sys.argv[1]))  # imports what is needed
domain = conjoin.Domain({f"v{i}": [0, 1] for i in range(25)})
table = TableFactor(tuple(range(25)), np.zeros((2,) * 25))
network = conjoin.MarkovNetwork(domain, factors=[table])
conjoin.save(network, sys.argv[1])
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for ask in (
    lambda: conjoin.marginals(network, max_memory=1e10),
    lambda: conjoin.save(network, sys.argv[1]),
    lambda: conjoin.load(sys.argv[1]),
):
    try:
        ask()
        print("done")
    except conjoin.ConjoinError as error:
        print(type(error).__name__, isinstance(error, MemoryError), error)
"""
    done = run_limited(code, path, megabytes=8000)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for name, line in zip(("marginals", "save", "load"), lines, strict=True):
        assert line.startswith(f"OutOfMemoryError True not enough memory for {name}"), lines
        assert line.endswith("take fewer rows or columns, or give this process more memory")


def test_lengths_in_damaged_files_reserve_nothing(tmp_path):
    """A length of 2^39 in a header is an error, and not a request for memory."""
    path = tmp_path / "model.conjoin"
    conjoin.save(MarkovNetwork(two(), factors=[TableFactor((0, 1), np.zeros((2, 2)))]), path)
    raw = path.read_bytes()
    huge = str(2**39).encode()
    places = [i for i in range(len(raw)) if raw[i : i + 1].isdigit()]
    refused = 0
    for place in places:
        path.write_bytes(raw[:place] + huge + raw[place + 1 :])
        try:
            conjoin.load(path)
        except FormatError as error:
            refused += 1
            assert len(str(error)) < 500
    assert refused > len(places) / 2


# ---- folders that cannot be written to ---------------------------------------------------------

NOWHERE = "/proc/nonexistent"


@pytest.mark.skipif(sys.platform != "linux", reason="the folders are those of Linux")
@pytest.mark.parametrize("words", [["info", "m.conjoin"], ["score", "m.conjoin", "t.csv"]])
def test_commands_work_without_a_home_or_a_cache(tmp_path, words):
    network = MarkovNetwork(
        two(), factors=[TableFactor((0, 1), np.array([[0.0, 1.0], [2.0, 0.5]]))]
    )
    conjoin.save(network, tmp_path / "m.conjoin")
    conjoin.write_table(conjoin.Table(two(), [[0, 1], [1, 0]]), tmp_path / "t.csv")
    names = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
    environment = {**os.environ, **dict.fromkeys(names, NOWHERE)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-m", "conjoin", *words],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="users are those of Linux")
@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another"
)
def test_a_user_without_rights_gets_one_clear_sentence(tmp_path):
    """Everything is read-only: models are read and asked, and nothing can be written."""
    network = MarkovNetwork(two(), factors=[TableFactor((0, 1), np.zeros((2, 2)))])
    path = tmp_path / "m.conjoin"
    conjoin.save(network, path)
    conjoin.marginals(conjoin.load(path))  # compiles what the child needs
    table = conjoin.Table(two(), np.zeros((3, 2), np.uint8))
    conjoin.write_table(table, tmp_path / "t.csv")
    above = [folder for folder in tmp_path.parents if folder.name.startswith(("pytest-", "popen-"))]
    for folder in (tmp_path, *above):
        folder.chmod(0o555)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            conjoin.marginals(conjoin.load(path))
            for write in (
                lambda: conjoin.save(network, path),
                lambda: conjoin.write_table(table, tmp_path / "t.csv"),
            ):
                try:
                    write()
                    os.write(writer, b"written\n")
                except FormatError as error:
                    os.write(writer, f"{error}\n".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        lines = file.read().splitlines()
    for folder in (tmp_path, *above):
        folder.chmod(0o700)
    assert [line.partition(": ")[2] for line in lines] == [
        "cannot be written: Permission denied",
        "cannot be written: Permission denied",
    ]


def test_no_message_is_longer_than_a_screen(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('[[variables]]\nname = "a"\n' + "k" * 13_000 + " = 1\n")
    with pytest.raises(ConjoinError) as caught:
        conjoin.load(path)
    assert len(str(caught.value)) <= 1500 < 13_000
    assert str(path) in str(caught.value)


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away"
)
def test_a_file_keeps_its_owner(tmp_path):
    path = tmp_path / "model.conjoin"
    path.write_bytes(b"old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write_bytes(path, b"new")
    found = path.stat()
    assert path.read_bytes() == b"new"
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o640)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_file(small_disk):
    path = small_disk / "model.conjoin"
    path.write_bytes(b"old")
    (small_disk / "other").write_bytes(bytes(40_000))
    with pytest.raises(FormatError, match="cannot be written: No space left on device"):
        write_bytes(path, bytes(40_000))
    assert sorted(p.name for p in small_disk.iterdir()) == ["model.conjoin", "other"]
    assert path.read_bytes() == b"old"
