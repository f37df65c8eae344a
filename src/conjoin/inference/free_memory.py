"""How much memory exact inference may use: what is free on this machine, and to this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import monotonic

SHARE = 0.75
"""The share of the free memory that exact inference may use."""

FALLBACK = 4 << 30
"""The memory that is taken to be free where the system does not say, in bytes."""

STEPS = 4
"""The limit is rounded down to one of this number of values per power of two, so that it is stable."""


def memory_limit(max_memory: float | None = None) -> float:
    """Return the memory limit of exact inference: the given one, or a share of what is free, in bytes."""
    return _share_of_free(int(monotonic())) if max_memory is None else float(max_memory)


@lru_cache(maxsize=1)
def _share_of_free(second: int) -> float:  # noqa: ARG001
    """Return the share of the free memory, rounded; asking takes half a millisecond, so once a second."""
    size = max(min(_limits(), default=float(FALLBACK)) * SHARE, 1 << 20)
    step = 2.0 ** (int(size).bit_length() - 1) / STEPS
    return size // step * step


def _limits() -> Iterator[float]:
    """Yield the limits that the system states."""
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        yield next(1024.0 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))
    yield from _of_control_group()
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            yield max(0.0, limit - pages * resource.getpagesize())


def _of_control_group(root: Path = Path("/sys/fs/cgroup")) -> Iterator[float]:
    """Yield what the limits of the control groups of this process (as of a container) leave."""
    groups = [root]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            group = root / ("memory" if "memory" in names.split(",") else "") / path.lstrip("/")
            groups += [group, *group.parents]
    for group in dict.fromkeys(groups):
        if not group.is_relative_to(root):
            continue
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            with suppress(OSError, ValueError):  # "max" means that there is no limit
                yield max(
                    0.0, float(_number(group / limit)) - _number(group / used) + _cached(group)
                )


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def _cached(group: Path) -> int:
    """Return the memory that holds copies of files, which the system gives back when it is needed."""
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                return int(line.split()[1])
    return 0
