"""Long runs: jobs, progress, interrupts."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import conjoin.jobs as jobs
import conjoin.progress as progress_module
from conjoin import Domain, Table, learn_conditionals


def some_table(seed=0, n=10, rows=300):
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 4, n)
    hidden = rng.integers(0, 3, rows)
    columns = [
        np.where(rng.random(rows) < 0.7, hidden % c, rng.integers(0, c, rows)) for c in cards
    ]
    domain = Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    return Table(domain, np.stack(columns, axis=1))


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

    def recorder(items, what, total):
        entry = [what, total, 0]
        said.append(entry)
        for item in items:
            entry[2] += 1
            yield item

    table = some_table(n=100, rows=60)
    learn_conditionals(table, "tree", n_jobs=n_jobs)
    assert capfd.readouterr() == ("", "")  # not a terminal
    monkeypatch.setattr(jobs, "progress", recorder)
    dn = learn_conditionals(table, "hybrid", penalty=5.0, n_jobs=n_jobs)
    tried = [kappa for kappa, _ in dn.provenance["learned"]["kappa_path"]]
    best = dn.provenance["learned"]["kappa"]
    expected = [f"trees, kappa {k:g}" for k in tried]
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
    progress_module._report(Done(), None)
    assert waits == [2.0, 2.0, 2.0, 10.0, 100.0]
    times = (2, 4, 40, 400)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"conjoin: after {t} s: tables: columns, 2 of 3" for t in times]
    outer.close()
    inner.close()
    assert not progress_module._under_way


def test_commands_write_lines_in_a_log(monkeypatch, capsys):
    monkeypatch.delenv("CONJOIN_QUIET")
    written = threading.Event()

    def write(done, terminal):
        assert terminal is None
        written.set()
        assert done.wait(60) and str(progress_module._under_way[0]) == "check"

    monkeypatch.setattr(progress_module, "_report", write)
    with progress_module.reported("check"):
        assert written.wait(60) and str(progress_module._under_way[0]) == "check"
    assert capsys.readouterr().err == "" and not progress_module._under_way


@pytest.mark.parametrize("why", ["quiet", "library"])
def test_no_lines_where_nobody_wants_them(why, monkeypatch):
    if why == "library":  # Python programs write nothing into logs
        monkeypatch.delenv("CONJOIN_QUIET")
    before = threading.active_count()
    steps = progress_module.progress([1, 2], "steps")
    with contextlib.nullcontext() if why == "library" else progress_module.reported("check"):
        assert next(steps) == 1 and threading.active_count() == before


class Terminal(io.StringIO):
    """A terminal, which shows what is left of the text after carriage returns."""

    def isatty(self):
        return True

    def screen(self):
        lines = []
        for line in self.getvalue().split("\n"):
            cells = []
            for part in line.split("\r"):
                cells[: len(part)] = part
            lines.append("".join(cells).rstrip())
        return lines


def shows(screen, line):
    return screen.screen()[-1] == line


def seen_within_a_minute(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("columns", [30, 200])
def test_a_terminal_has_one_live_line_and_no_debris(columns, monkeypatch):
    monkeypatch.delenv("CONJOIN_QUIET")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    monkeypatch.setattr(progress_module, "TICK", 0.01)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    with progress_module.reported("learn"):
        assert seen_within_a_minute(lambda: screen.screen()[-1].startswith("0 s  learn (the first"))
        for letter in progress_module.progress("abc", "columns of a table"):
            if letter == "b":
                said = "0 s  learn: columns of a table, 2 of 3"[: columns - 1]
                assert seen_within_a_minute(partial(shows, screen, said))
                sys.stderr.write("a message\n")
                sys.stdout.write("an answer")
                time.sleep(0.05)  # the live line waits for the end of this one
                sys.stdout.write(" in parts\n")
        assert all(len(line) < columns for line in screen.screen())
    assert screen.screen() == ["a message", "an answer in parts", ""]
    assert sys.stderr is screen and sys.stdout is screen


def test_python_programs_have_a_live_line_on_a_terminal(monkeypatch):
    monkeypatch.delenv("CONJOIN_QUIET")
    monkeypatch.setattr(progress_module, "DELAY", 0.0)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    for _ in progress_module.progress(range(1), "rows"):  # "1 of 1" would say nothing
        assert seen_within_a_minute(
            lambda: screen.screen()[-1] == "0 s  rows" + progress_module.FIRST_RUN
        )
    assert screen.screen() == [""]


# ---- interrupts -----------------------------------------------------------------------------------


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


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_stops_at_once_inside_a_kernel(n_jobs, tmp_path):
    """One tree over 300,000 rows takes several seconds in a kernel, which hears no signals."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    bits = np.random.default_rng(0).integers(0, 2, (300_000, 40), dtype=np.int8)
    parquet.write_table(pa.table({f"x{i}": bits[:, i] for i in range(40)}), tmp_path / "a.parquet")
    patch = """
        import conjoin.learning.tree_path as trees
        grow = trees.NestedTree.grow
        def watched(tree, data, *args):
            if 64 * len(data.everyone) < 250_000:  # settings are chosen by some of the rows
                return grow(tree, data, *args)
            sys.stdout.write("in\\n")  # at once, as two threads may write
            sys.stdout.flush()
            grow(tree, data, *args)
            sys.stdout.write("out\\n")
        trees.NestedTree.grow = watched
    """
    command = ["learn", "a.parquet", "-o", "model.conjoin", "--kappa", "1", "--min-leaf", "1"]
    command += ["--jobs", n_jobs]
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
    assert err == "conjoin: interrupted\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("terminal", [True, False])
def test_long_compilations_are_told_once_on_a_terminal(terminal, monkeypatch):
    from conjoin.kernels import kernel

    class Screen(io.StringIO):
        def isatty(self):
            return terminal

    times = iter([0.0, 0.5, 1.5, 10.0, 10.9, 20.0, 30.0])
    monkeypatch.setattr(kernel, "monotonic", lambda: next(times))
    screen = Screen()
    monkeypatch.setattr(kernel.sys, "stderr", screen)
    notice, told = kernel.Notice(), []
    for starts in (True, True, False, False, True, False, True, False):
        (notice.on_start if starts else notice.on_end)(None)
        told.append(bool(screen.getvalue()))
    # Two in one take 1.5 s, the next one 0.9 s more.
    assert told == [False] * 5 + [terminal] * 3
    assert screen.getvalue().count("\n") == terminal
