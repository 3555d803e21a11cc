"""Memory control groups (version 1 or 2 of the system's interface; needs root)."""

import contextlib
import os
import time
from pathlib import Path

import servers


@contextlib.contextmanager
def cage(server, limit):
    """Puts a running server and the processes it will start into a group of `limit` bytes; pages of the page cache count that
    they bring in from now on."""
    root = Path("/sys/fs/cgroup")
    unified = (root / "cgroup.controllers").exists()
    base = root if unified else root / "memory"
    path = base / f"rowhouse-bench-{os.getpid()}-{server.name.lower()}"
    path.mkdir()
    try:
        (path / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
        move(server, path)
        yield path
    finally:
        move(server, base)
        # Processes that end take a moment to leave.
        for _ in range(100):
            if not (path / "cgroup.procs").read_text():
                break
            time.sleep(0.05)
        path.rmdir()


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


def move(server, path):
    for pid in servers.process_tree(server.pid):
        with contextlib.suppress(OSError):
            (path / "cgroup.procs").write_text(str(pid))
