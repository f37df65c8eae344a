"""Long runs: progress, checkpoints, interrupts."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import conjoin.jobs as jobs
import conjoin.learning.checkpoint as checkpoint_module
import conjoin.progress as progress_module
from conjoin import Domain, Table, learn, write_table
from conjoin.cli.main import main
from conjoin.errors import FormatError
from conjoin.learning.checkpoint import Checkpoint, restricted_loads
from conjoin.learning.options import Limits


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
        return threading.current_thread(), i * i

    done = jobs.run(slow_first, [(i,) for i in range(6)], n_jobs)
    assert [square for _, square in done] == [0, 1, 4, 9, 16, 25]
    assert threading.main_thread() not in [thread for thread, _ in done]  # it hears interrupts

    def fails(i):
        if i == 3:
            raise KeyError("three")
        return i

    with pytest.raises(KeyError, match="three"):
        jobs.run(fails, [(i,) for i in range(6)], n_jobs)
    assert not [t for t in threading.enumerate() if t.name == jobs.THREAD_NAME]
    assert jobs.run(fails, [], n_jobs) == []


def test_joblib_runs_a_single_job_in_the_main_thread():
    """Hence the thread of our own, without which an interrupt waits for the end of a kernel."""
    joblib = pytest.importorskip("joblib")
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend=backend, n_jobs=1):
            (thread,) = joblib.Parallel()([joblib.delayed(threading.current_thread)()])
        assert thread is threading.main_thread()


def test_shared_arguments_are_one_object():
    table, other = some_table(), [0]
    shared = jobs._Shared(max, [(table, 1, other), (table, 2, other), (table, 3, other)])
    assert shared.arguments == {0: table, 2: other}
    copy = pickle.loads(pickle.dumps(shared.others((table, 2, other))))
    assert copy.value == [2]
    back = pickle.loads(pickle.dumps(jobs._Shared(zip, [(other, 1), (other, 2)])))
    assert back.arguments == {0: other}


@pytest.fixture
def interruptible():
    """Hear SIGINT even where the parent process ignores it, as nohup and shell scripts do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_abandoned_threads_stop_at_the_next_stop_point(n_jobs):
    entered = threading.Event()
    ended = threading.Semaphore(0)

    def endless(_):
        try:
            while True:
                jobs.stop_point()
                entered.set()
                time.sleep(0.01)
        finally:
            ended.release()

    def interrupt():
        entered.wait(60)
        signal.raise_signal(signal.SIGINT)  # is heard by the main thread

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        jobs.run(endless, [(0,), (1,)], n_jobs)
    for _ in range(n_jobs):
        assert ended.acquire(timeout=60)


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


def test_a_log_gets_few_lines(monkeypatch, capsys):
    """A line says what is under way, from the outside to the inside; the next is due later and later."""
    waits, clock = [], iter([0.0, 2.0, 4.0, 40.0, 400.0])

    class Done:
        def wait(self, seconds):
            waits.append(seconds)
            return len(waits) == 5

    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    outer = progress_module.progress(iter("xy"), "tables")
    inner = progress_module.progress(["a", "b", "c"], "columns")
    assert [next(outer), next(inner), next(inner)] == ["x", "a", "b"]
    progress_module._write_lines(Done())
    assert waits == [2.0, 2.0, 2.0, 10.0, 100.0]
    times = (2, 4, 40, 400)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"conjoin: after {t} s: tables: columns, 1 of 3" for t in times]
    outer.close()
    inner.close()
    assert not progress_module._under_way


def test_commands_write_lines_in_a_log(monkeypatch, capsys):
    monkeypatch.delenv("CONJOIN_QUIET")
    written = threading.Event()

    def write(done):
        written.set()
        assert done.wait(60) and [str(step) for step in progress_module._under_way] == []

    monkeypatch.setattr(progress_module, "_write_lines", write)
    with progress_module.lines_in_a_log("check"):
        assert written.wait(60) and str(progress_module._under_way[0]) == "check"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("why", ["quiet", "terminal"])
def test_no_lines_where_nobody_wants_them(why, monkeypatch):
    if why == "terminal":
        monkeypatch.delenv("CONJOIN_QUIET")
        monkeypatch.setattr(progress_module.sys, "stderr", SimpleNamespace(isatty=lambda: True))
    before = threading.active_count()
    with progress_module.lines_in_a_log("check"):
        assert threading.active_count() == before


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
def test_a_stopped_run_goes_on_where_it_was(kind, options, tmp_path, puts):
    table, cpd = some_table(), cpd_of(kind)
    if "valid" in options:
        options = {"valid": Table(table.domain, table.codes[::3])}
    options = {**options, "limits": Limits(batch_cells=1200)}  # several batches
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


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "flipped"])
def test_damaged_results_are_computed_again(damage, tmp_path, puts):
    table = some_table()
    plain = saved(tmp_path / "a.conjoin", table)
    folder = tmp_path / "kept"
    puts(20)
    with pytest.raises(StopError):
        learn(table, checkpoint=folder)
    results = sorted(folder.glob("*.result"))
    assert len(results) == 20
    for path in results[::3]:
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        path.write_bytes({"empty": b"", "cut": whole[:-1], "flipped": flipped}.get(damage, whole))
        if damage == "missing":
            path.unlink()
    (folder / "half.part").write_bytes(b"a file that was being written")
    puts()
    assert saved(tmp_path / "b.conjoin", table, checkpoint=folder) == plain
    assert not folder.exists()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_removing_a_checkpoint_leaves_other_files(tmp_path):
    folder = tmp_path / "kept"
    kept = Checkpoint(folder)
    kept.open({"a": 1})
    kept.put("key", np.arange(3))
    (folder / "notes.txt").write_text("mine")
    kept.remove()
    assert contents(folder) == {"notes.txt": b"mine"}


def test_a_checkpoint_of_other_inputs_is_refused(tmp_path, puts, monkeypatch):
    table = some_table()
    file = tmp_path / "kept"
    puts(3)
    with pytest.raises(StopError):
        learn(table, checkpoint=file)
    whole = contents(file)
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
        with pytest.raises(
            FormatError, match=rf"\(different: {message}\)\. Delete it to start again"
        ):
            learn(other, checkpoint=file, **options)
        assert contents(file) == whole
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "__version__", "9")
        with pytest.raises(FormatError, match="different: version of Conjoin"):
            learn(table, checkpoint=file)
    other = tmp_path / "other"
    other.write_text("something dear")
    with pytest.raises(FormatError, match="is not a checkpoint"):
        learn(table, checkpoint=other)
    assert other.read_text() == "something dear"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine").write_text("something dear")
    with pytest.raises(FormatError, match="is not a checkpoint"):
        learn(table, checkpoint=folder)
    assert contents(folder) == {"mine": b"something dear"}
    (folder / "inputs.json").write_text("[1]")
    with pytest.raises(FormatError, match="is not a checkpoint"):
        learn(table, checkpoint=folder)
    with pytest.raises(FormatError, match="no folder"):
        learn(table, checkpoint=tmp_path / "none" / "kept")


class Evil:
    """Unpickling it the ordinary way would call a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_a_checkpoint_runs_no_code(tmp_path):
    value = {"a": [1, (2.5, None, "x", True)], 3: np.arange(6, dtype=np.uint8).reshape(2, 3)}
    back = restricted_loads(pickle.dumps(value))
    np.testing.assert_array_equal(back.pop(3), value.pop(3))
    assert back == value
    file = tmp_path / "made"
    for evil in (Evil(os.mkdir, str(file)), Evil(eval, f"open({str(file)!r}, 'w')")):
        for data in (pickle.dumps(evil, 4), pickle.dumps([1, np.array([evil])], 4)):
            with pytest.raises(FormatError, match="cannot contain"):
                restricted_loads(data)
    # A trusted module's attributes that come from elsewhere are not trusted.
    stolen = pickle.dumps(checkpoint_module._digest, 4).replace(b"_digest", b"hashlib")
    assert b"conjoin.learning.checkpoint" in stolen
    with pytest.raises(FormatError, match="cannot contain"):
        restricted_loads(stolen)
    with pytest.raises(FormatError, match="cannot contain"):
        restricted_loads(pickle.dumps(checkpoint_module.fingerprint, 4))  # a function
    assert not file.exists()
    kept = Checkpoint(tmp_path / "kept")
    kept.open({})
    with pytest.raises(FormatError, match="cannot contain"):
        kept.put("key", StopError())


def run_slowly(tmp_path, patch, *arguments):
    """Start the command in a process of its own, with something of it changed."""
    code = textwrap.dedent(patch) + textwrap.dedent(f"""
        from conjoin.cli.main import main
        sys.exit(main({list(map(str, arguments))!r}))
    """)
    head = "import signal, sys, time\n"
    head += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # the parent may ignore it
    return subprocess.Popen(
        [sys.executable, "-c", head + code],
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
    assert "cannot have the same name" in capsys.readouterr().err


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
        import conjoin.learning.tree_path as trees
        grow = trees.NestedTree.grow
        def watched(*args):
            sys.stdout.write("in\\n")  # at once, as two threads may write
            sys.stdout.flush()
            grow(*args)
            sys.stdout.write("out\\n")
        trees.NestedTree.grow = watched
    """
    command = ["learn", "a.parquet", "-o", "model.conjoin", "--kappa", "1", "--min-leaf", "1"]
    command += ["--jobs", n_jobs, *(["--checkpoint", "kept"] if kept else [])]
    process = run_slowly(tmp_path, patch, *command)
    first = process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
    assert first == "in\n", err
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


def test_a_full_disk_is_a_clear_error_and_the_run_can_be_resumed(tmp_path, monkeypatch):
    table, place = some_table(), tmp_path / "checkpoint"
    write, left = Checkpoint._write, [6]

    def full(path, content):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(Checkpoint, "_write", staticmethod(full))
    with pytest.raises(FormatError, match="cannot be written: No space left.*run the same again"):
        learn(table, "tree", checkpoint=place, n_jobs=1)
    monkeypatch.setattr(Checkpoint, "_write", staticmethod(write))
    resumed = saved(tmp_path / "a.conjoin", table, "tree", checkpoint=place, n_jobs=1)
    assert resumed == saved(tmp_path / "b.conjoin", table, "tree", n_jobs=1)


def test_a_run_that_was_killed_at_its_first_write_can_be_started_again(tmp_path):
    place = tmp_path / "checkpoint"
    place.mkdir()
    (place / "inputs.part").write_bytes(b'{"cpd": "tr')
    learn(some_table(rows=60), "tree", checkpoint=place, n_jobs=1)
    assert not place.exists()
