"""Memory control groups (version 1 or 2 of the system's interface; needs root)."""

import contextlib
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
UNIFIED = (ROOT / "cgroup.controllers").exists()
BASE = ROOT if UNIFIED else ROOT / "memory"


@contextlib.contextmanager
def cage(name, limit):
    """A group of `limit` bytes; who is still in it at the end goes on outside. A process that comes into a group leaves what it has by then to the group
    before, so start within it (`inside`) whom it is to hold with all that it has. Pages of the page cache count that are brought in from within."""
    path = BASE / f"rowhouse-bench-{os.getpid()}-{name.lower()}"
    path.mkdir()
    try:
        (path / ("memory.max" if UNIFIED else "memory.limit_in_bytes")).write_text(str(limit))
        yield path
    finally:
        # Processes that end take a moment to leave.
        for _ in range(100):
            pids = members(path)
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(OSError):
                    move(pid, BASE)
            time.sleep(0.05)
        path.rmdir()


@contextlib.contextmanager
def inside(path):
    """Has this process in a group, and so those that it starts meanwhile."""
    home = own_group()
    move(os.getpid(), path)
    try:
        yield
    finally:
        move(os.getpid(), home)


def own_group():
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" if UNIFIED else "memory" in controllers.split(","):
            group = BASE / path.lstrip("/")
            return group if (group / "cgroup.procs").exists() else BASE
    return BASE


def members(path):
    return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]


def move(pid, path):
    (path / "cgroup.procs").write_text(str(pid))


def forget_cached(directory):
    """Takes the files under a directory out of the system's page cache. Pages stay with the group that brought them in: those of a
    load outside of a cage could be read from within for nothing."""
    for path in Path(directory).rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
