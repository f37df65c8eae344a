"""Learning on joblib's processes, on a Dask cluster and on a Ray cluster, all of them real."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import conjoin.jobs as jobs
from conjoin import Domain, Table, learn_conditionals
from conjoin.learning import Limits

joblib = pytest.importorskip("joblib")

pytestmark = pytest.mark.cluster

WORKERS = 2


def some_table(seed, n, rows):
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 5, n)
    hidden = rng.integers(0, 3, rows)
    columns = []
    for card in cards:
        noise = rng.integers(0, card, rows)
        columns.append(np.where(rng.random(rows) < 0.6, hidden % card, noise))
    domain = Domain({f"x{i}": [f"s{k}" for k in range(c)] for i, c in enumerate(cards)})
    return Table(domain, np.stack(columns, axis=1))


# ---- clusters -------------------------------------------------------------------------------------
# Each has a name, a joblib configuration, and a meter of the bytes of tasks and data that went out.


class Loky:
    """Two processes of joblib's own."""

    name = "loky"

    def __init__(self, patch):
        import joblib._memmapping_reducer as memmapping
        import joblib.externals.loky.backend.queues as queues

        self.bytes = 0
        dumps, dump = queues.dumps, memmapping.dump

        def counting_dumps(obj, *args, **kwargs):  # what goes through the pipe
            out = dumps(obj, *args, **kwargs)
            self.bytes += len(out)
            return out

        def counting_dump(obj, filename, *args, **kwargs):  # arrays that are mapped from a file
            out = dump(obj, filename, *args, **kwargs)
            self.bytes += Path(filename).stat().st_size
            return out

        patch.setattr(queues, "dumps", counting_dumps)
        patch.setattr(memmapping, "dump", counting_dump)

    def config(self):
        return joblib.parallel_config(backend="loky", n_jobs=WORKERS)

    def received(self):
        return self.bytes

    def close(self):
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


class Dask:
    """A scheduler with two worker processes."""

    name = "dask"

    def __init__(self, _):
        distributed = pytest.importorskip("distributed", reason="dask distributed is not installed")
        self.cluster = distributed.LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        )
        self.client = distributed.Client(self.cluster)
        self.client.run(_count_frames)

    def config(self):
        return joblib.parallel_config(backend="dask")

    def received(self):
        return sum(self.client.run(_frames_counted).values())

    def close(self):
        self.client.close()
        self.cluster.close()
        assert not multiprocessing.active_children()


def _count_frames():
    """On a Dask worker: count all bytes that arrive from the client, scheduler or other workers."""
    import distributed.comm.tcp as tcp

    inner = tcp.from_frames
    tcp.conjoin_bytes = 0

    async def counting(frames, *args, **kwargs):
        tcp.conjoin_bytes += sum(memoryview(frame).nbytes for frame in frames)
        return await inner(frames, *args, **kwargs)

    tcp.from_frames = counting


def _frames_counted():
    import distributed.comm.tcp as tcp

    return tcp.conjoin_bytes


class Ray:
    """A Ray node with two processors, hence two actors per call."""

    name = "ray"

    def __init__(self, patch):
        ray = pytest.importorskip("ray", reason="ray is not installed")
        from joblib import parallel, pool
        from ray._private.serialization import SerializationContext
        from ray.util.joblib import register_ray

        self.ray = ray
        self.pool, self.bases = pool.PicklingPool, pool.PicklingPool.__bases__  # Ray sets them
        patch.setattr(parallel, "BACKENDS", dict(parallel.BACKENDS))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a FutureWarning
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        ray.init(
            num_cpus=WORKERS, include_dashboard=False, logging_level="error", log_to_driver=False
        )
        register_ray()
        self.processes = [
            info.process
            for infos in ray._private.worker._global_node.all_processes.values()
            for info in infos
        ]
        self.bytes = 0
        inner = SerializationContext.serialize

        def counting(context, value):  # objects that are put in the store, and arguments of tasks
            out = inner(context, value)
            self.bytes += out.total_bytes
            return out

        patch.setattr(SerializationContext, "serialize", counting)

    def config(self):
        return joblib.parallel_config(backend="ray", n_jobs=-1)

    def received(self):
        return self.bytes

    def close(self):
        self.ray.shutdown()
        self.pool.__bases__ = self.bases
        assert not self.ray.is_initialized()
        assert all(process.poll() is not None for process in self.processes)


@pytest.fixture(scope="module", params=[Loky, Dask, Ray], ids=lambda kind: kind.name)
def cluster(request):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of third parties, when they start and stop
        made = request.param(patch)
        try:
            yield made
        finally:
            made.close()


@contextlib.contextmanager
def on(cluster):
    with warnings.catch_warnings(), cluster.config():
        warnings.simplefilter("ignore")  # of third parties
        warnings.filterwarnings("error", module="conjoin")
        yield


def saved(path, *args, **options):
    learn_conditionals(*args, **options).save(path)
    return path.read_bytes()


# ---- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpd", ["tree", "logistic", "hybrid"])
def test_a_cluster_learns_the_same_bytes(cluster, cpd, tmp_path):
    table = some_table(1, n=20, rows=600)
    options = {
        "limits": Limits(batch_cells=4000)
    }  # several batches; choose along the whole path, a call of joblib for each value
    if cluster.name == "ray":  # which starts its workers anew for each call, in seconds
        options |= {"valid": Table(table.domain, table.codes[:100]), "kappa": 0.1, "penalty": 5.0}
    alone = saved(tmp_path / "alone.conjoin", table, cpd, n_jobs=1, **options)
    with on(cluster):
        shared = saved(tmp_path / "shared.conjoin", table, cpd, **options)
    assert shared == alone


@pytest.fixture
def watched(monkeypatch):
    """Note, for each call of joblib, the size of what its tasks share and of everything else."""
    calls = []
    original = jobs._through_joblib

    def watching(given, *rest):
        own = sum(len(pickle.dumps(others, 5)) for _, others in given)
        calls.append({"tasks": len(given), "shared": len(pickle.dumps(given[0][0], 5)), "own": own})
        return original(given, *rest)

    monkeypatch.setattr(jobs, "_through_joblib", watching)
    return calls


@pytest.mark.parametrize("cpd", ["tree", "logistic"])
def test_data_are_sent_once_per_worker(cluster, cpd, tmp_path, watched):
    if cluster.name == "ray":
        pytest.skip("its backend sends all arguments with each task")
    both = some_table(2, n=32, rows=330_000 if cpd == "tree" else 34_000)  # trees share bits
    table, valid = Table(both.domain, both.codes[2000:]), Table(both.domain, both.codes[:2000])
    options = {"valid": valid, "kappa": 0.01, "penalty": 100.0}  # one call of joblib
    options["limits"] = Limits(batch_cells=4000)  # 4 columns per batch
    with on(cluster):
        before = cluster.received()
        shared = saved(tmp_path / "shared.conjoin", table, cpd, **options)
        sent = cluster.received() - before
    assert shared == saved(tmp_path / "alone.conjoin", table, cpd, n_jobs=1, **options)
    (call,) = watched
    assert call["tasks"] >= 16
    assert call["shared"] > 1_000_000
    # Once per worker and some overhead: loky sends small arrays with each task, Dask moves copies. If
    # several tasks are sent before a worker has the data, Dask sends these more than once (5 to 7 times
    # for the 32 tasks of trees), but not with every task.
    copies = 12 if (cluster.name, cpd) == ("dask", "tree") else WORKERS + 2
    assert sent - 1.2 * call["own"] < copies * call["shared"] < 16 * call["shared"]
