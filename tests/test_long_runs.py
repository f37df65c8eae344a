"""Long runs: progress, checkpoints, interrupts."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import conjoin.jobs as jobs
import conjoin.learning.checkpoint as checkpoint_module
import conjoin.learning.design as design_module
from conjoin import Domain, Table, learn, write_table
from conjoin.cli.main import main
from conjoin.errors import FormatError
from conjoin.learning.checkpoint import Checkpoint, pack, unpack


def some_table(seed=0, n=10, rows=300):
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 4, n)
    hidden = rng.integers(0, 3, rows)
    columns = [
        np.where(rng.random(rows) < 0.7, hidden % c, rng.integers(0, c, rows)) for c in cards
    ]
    domain = Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    return Table(domain, np.stack(columns, axis=1))


def saved(path, *args, **options):
    learn(*args, **options).save(path)
    return path.read_bytes()


def cpd_of(kind):
    if kind != "classifier":
        return kind
    return pytest.importorskip("sklearn.ensemble").RandomForestClassifier(5, random_state=0)


# ---- jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_results_are_in_order_and_errors_are_passed_on(n_jobs):
    def slow_first(i):
        time.sleep(0.05 if i == 0 else 0)
        return threading.current_thread().name, i * i

    done = jobs.run(slow_first, [(i,) for i in range(6)], n_jobs)
    assert [square for _, square in done] == [0, 1, 4, 9, 16, 25]
    assert {name for name, _ in done} == {jobs.THREAD}  # never the one that hears interrupts

    def fails(i):
        if i == 3:
            raise KeyError("three")
        return i

    with pytest.raises(KeyError, match="three"):
        jobs.run(fails, [(i,) for i in range(6)], n_jobs)
    assert not [t for t in threading.enumerate() if t.name == jobs.THREAD]
    assert jobs.run(fails, [], n_jobs) == []


def test_abandoned_threads_stop_at_the_next_stop_point():
    passed = []
    entered = threading.Event()

    def endless(i):
        while True:
            jobs.stop_point()
            passed.append(i)
            entered.set()
            time.sleep(0.01)

    def interrupt():
        entered.wait()
        signal.raise_signal(signal.SIGINT)  # is heard by the main thread

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        jobs.run(endless, [(0,), (1,)], 2)
    for thread in threading.enumerate():
        if thread.name == jobs.THREAD:
            thread.join(5)
    assert not [t for t in threading.enumerate() if t.name == jobs.THREAD]


# ---- progress -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_is_by_variable_and_names_the_stage(n_jobs, monkeypatch, capfd):
    said = []

    def recorder(items, what):
        entry = [what, len(items), 0]
        said.append(entry)
        for item in items:
            entry[2] += 1
            yield item

    table = some_table(n=100, rows=60)
    learn(table, "tree", n_jobs=n_jobs)
    assert capfd.readouterr() == ("", "")  # not a terminal
    monkeypatch.setattr(jobs, "progress", recorder)
    dn = learn(table, "hybrid", folds=2, penalty=5.0, n_jobs=n_jobs)
    tried = [kappa for kappa, _ in dn.provenance["learned"]["kappa_path"]]
    best = dn.provenance["learned"]["kappa"]
    expected = [f"fold {i} of 2: trees, kappa {k:g}" for k in tried for i in (1, 2)]
    expected += [f"all rows: trees, kappa {best:g}"]
    expected += ["all rows: logistic regression, penalty 5"]
    assert [what for what, _, _ in said] == expected
    assert {(total, steps) for _, total, steps in said} == {(100, 100)}


# ---- checkpoints ----------------------------------------------------------------------------------


class StopError(Exception):
    pass


@pytest.fixture
def puts(monkeypatch):
    """Count what is kept, and stop after some of it."""
    original = Checkpoint.put
    state = {"count": 0, "stop": None}

    def put(self, key, value):
        if state["count"] == state["stop"]:
            raise StopError
        state["count"] += 1
        original(self, key, value)

    monkeypatch.setattr(Checkpoint, "put", put)

    def reset(stop=None):
        count = state["count"]
        state.update(count=0, stop=stop)
        return count

    return reset


@pytest.mark.parametrize("kind", ["tree", "logistic", "hybrid", "boosted", "classifier"])
@pytest.mark.parametrize("options", [{}, {"folds": 2}, {"valid": True}], ids=str)
def test_a_stopped_run_goes_on_where_it_was(kind, options, tmp_path, monkeypatch, puts):
    monkeypatch.setattr(design_module, "BATCH_CELLS", 1200)  # several batches
    table, cpd = some_table(), cpd_of(kind)
    if "valid" in options:
        options = {"valid": Table(table.domain, table.codes[::3])}
    file = tmp_path / "kept"
    plain = saved(tmp_path / "a.conjoin", table, cpd, **options)
    assert saved(tmp_path / "b.conjoin", table, cpd, checkpoint=file, **options) == plain
    assert not file.exists()
    pieces = puts()
    assert pieces >= 5
    stops = sorted({0, 1, pieces // 3, pieces - 2, pieces - 1})
    for before, stop in zip([0, *stops], stops, strict=False):
        puts(stop - before)
        with pytest.raises(StopError):
            learn(table, cpd, checkpoint=file, n_jobs=1 + stop % 2, **options)
        assert file.exists()
    assert puts() == stops[-1] - stops[-2]
    assert saved(tmp_path / "c.conjoin", table, cpd, checkpoint=str(file), **options) == plain
    assert puts() == 1  # nothing but the last piece was left
    assert not file.exists()


def test_a_damaged_end_is_dropped(tmp_path, puts):
    table = some_table()
    plain = saved(tmp_path / "a.conjoin", table)
    file = tmp_path / "kept"
    puts(20)
    with pytest.raises(StopError):
        learn(table, checkpoint=file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for size in [0, 5, 21, 30, *rng.integers(50, len(whole), 8)]:
        file.write_bytes(whole[:size])
        puts()
        assert saved(tmp_path / "b.conjoin", table, checkpoint=file) == plain
        assert not file.exists()
    spoiled = bytearray(whole)
    spoiled[-40] ^= 1  # in the last record
    file.write_bytes(spoiled)
    assert saved(tmp_path / "b.conjoin", table, checkpoint=file) == plain


def test_a_checkpoint_of_other_inputs_is_refused(tmp_path, puts, monkeypatch):
    table = some_table()
    file = tmp_path / "kept"
    puts(3)
    with pytest.raises(StopError):
        learn(table, checkpoint=file)
    whole = file.read_bytes()
    renamed = Table(Domain({f"y{v.name}": v.states for v in table.domain}), table.codes)
    weighted = Table(table.domain, table.codes, np.full(len(table), 2.0))
    for other, options, message in [
        (some_table(1), {}, "training table"),
        (renamed, {}, "training table"),
        (weighted, {}, "training table"),
        (table, {"cpd": "boosted"}, "cpd"),
        (table, {"min_leaf": 5.0}, "options"),
        (table, {"random_state": 1}, "options"),
        (table, {"forbidden": {"x0": ["x1"]}}, "options"),
        (table, {"valid": table}, "validation table"),
    ]:
        with pytest.raises(FormatError, match=f"the same {message}. Delete it to start anew"):
            learn(other, checkpoint=file, **options)
        assert file.read_bytes() == whole
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "__version__", "9")
        with pytest.raises(FormatError, match="the same version of Conjoin"):
            learn(table, checkpoint=file)
    file.write_text("something dear")
    with pytest.raises(FormatError, match="is not a checkpoint"):
        learn(table, checkpoint=file)
    assert file.read_text() == "something dear"
    with pytest.raises(FormatError, match="no folder"):
        learn(table, checkpoint=tmp_path / "none" / "kept")


def test_only_objects_of_the_package_are_kept():
    value = {"a": [1, (2.5, None, "x", True)], 3: np.arange(6, dtype=np.uint8).reshape(2, 3)}
    back = unpack(pack(value))
    np.testing.assert_array_equal(back.pop(3), value.pop(3))
    assert back == value
    with pytest.raises(TypeError, match="cannot hold a Event"):
        pack([threading.Event()])
    with pytest.raises(TypeError, match="cannot hold a ndarray"):
        pack(np.array(["a"]))
    evil = b'{"value": {"object": ["subprocess", "Popen"], "state": {"dict": []}}, "arrays": []}\n'
    with pytest.raises(FormatError, match="Popen of subprocess"):
        unpack(evil)


def run_slowly(tmp_path, patch, *arguments):
    """Start the command in a process of its own, with something of it changed."""
    code = textwrap.dedent(patch) + textwrap.dedent(f"""
        from conjoin.cli.main import main
        sys.exit(main({list(map(str, arguments))!r}))
    """)
    return subprocess.Popen(
        [sys.executable, "-c", "import sys, time\n" + code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("cpd", ["tree", "hybrid"])
def test_a_killed_command_goes_on(cpd, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(some_table(rows=500), "train.csv")
    command = ["learn", "train.csv", "--cpd", cpd, "-o"]
    assert main([*command, "plain.conjoin"]) == 0
    patch = """
        from conjoin.learning.checkpoint import Checkpoint
        put = Checkpoint.put
        def slow(self, key, value):
            put(self, key, value)
            print(key, flush=True)
            time.sleep(0.05)
        Checkpoint.put = slow
    """
    command = [*command, "model.conjoin", "--checkpoint", "kept"]
    process = run_slowly(tmp_path, patch, *command)
    first = [process.stdout.readline() for _ in range(25)]
    process.kill()
    first += process.communicate()[0].splitlines(keepends=True)
    assert process.returncode == -signal.SIGKILL
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "plain.conjoin", "train.csv"]
    process = run_slowly(tmp_path, patch, *command)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    second = [line for line in out.splitlines(keepends=True) if "model.conjoin" not in line]
    assert second
    assert not set(first) & set(second)  # nothing is done twice
    assert (tmp_path / "model.conjoin").read_bytes() == (tmp_path / "plain.conjoin").read_bytes()
    assert not (tmp_path / "kept").exists()
    assert main(["learn", "train.csv", "-o", "a.dn", "--checkpoint", "a.dn"]) == 1
    assert "cannot be the same file" in capsys.readouterr().err


# ---- interrupts -----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupt_stops_at_once_inside_a_kernel(n_jobs, kept, tmp_path):
    """One tree over 300,000 rows takes several seconds in a kernel, which hears no signals."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    bits = np.random.default_rng(0).integers(0, 2, (300_000, 40), dtype=np.int8)
    parquet.write_table(pa.table({f"x{i}": bits[:, i] for i in range(40)}), tmp_path / "a.parquet")
    patch = """
        import conjoin.learning.trees as trees
        grow = trees.NestedTree.grow
        def watched(*args):
            print("in", flush=True)
            grow(*args)
            print("out", flush=True)
        trees.NestedTree.grow = watched
    """
    command = ["learn", "a.parquet", "-o", "model.conjoin", "--kappa", "1", "--min-leaf", "1"]
    command += ["--jobs", n_jobs, *(["--checkpoint", "kept"] if kept else [])]
    process = run_slowly(tmp_path, patch, *command)
    assert process.stdout.readline() == "in\n", process.stderr.read()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert "out" not in out
    assert process.returncode == 130
    hint = "; the same command resumes from kept" if kept else ""
    assert err == f"conjoin: interrupted{hint}\n"
    left = {"a.parquet", "kept"} if kept else {"a.parquet"}
    assert {p.name for p in tmp_path.iterdir()} == left


@pytest.mark.parametrize("terminal", [True, False])
def test_long_compilations_are_told_once_on_a_terminal(terminal, monkeypatch):
    from conjoin.kernels import jit

    class Screen(io.StringIO):
        def isatty(self):
            return terminal

    times = iter([0.0, 0.5, 1.5, 10.0, 10.9, 20.0, 30.0])
    monkeypatch.setattr(jit, "monotonic", lambda: next(times))
    screen = Screen()
    monkeypatch.setattr(jit.sys, "stderr", screen)
    notice, told = jit.Notice(), []
    for starts in (True, True, False, False, True, False, True, False):
        (notice.on_start if starts else notice.on_end)(None)
        told.append(bool(screen.getvalue()))
    # Two in one take 1.5 s, the next one 0.9 s more.
    assert told == [False] * 5 + [terminal] * 3
    assert screen.getvalue().count("\n") == terminal
