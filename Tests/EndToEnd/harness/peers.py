# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Other processes that open files and lock them when they are told to."""

import contextlib
import ctypes
import errno
import fcntl
import os
import pickle
import platform
import select
import signal
import struct

from .posix import attempt
from .processes import wait_until

LIBC = ctypes.CDLL(None, use_errno=True)

# fcntl(2) commands of open file descriptions; Python's module lacks them.
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
FLOCK = "hhqqi4x"
TYPES = {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
WAITS = {"x86_64": ("72", "73"), "aarch64": ("25", "32")}.get(platform.machine(), ())
needs = None if WAITS else f"knows no numbers of fcntl(2) and flock(2) on {platform.machine()}"


def lock(file, kind, start=0, length=0, wait=False, is_description=False):
    """Locks a range of a file, for the process or for the open file description; `ok`, or the name of the error."""
    commands = (OFD_SETLK, OFD_SETLKW) if is_description else (fcntl.F_SETLK, fcntl.F_SETLKW)
    record = struct.pack(FLOCK, TYPES[kind], os.SEEK_SET, start, length, 0)
    result = attempt(fcntl.fcntl, file, commands[wait], record)
    return result if isinstance(result, str) else "ok"


def holder(file, kind, start=0, length=0, is_description=False):
    """Who would refuse a lock: its kind, range and process; `none` when nobody would."""
    record = struct.pack(FLOCK, TYPES[kind], os.SEEK_SET, start, length, 0)
    result = attempt(fcntl.fcntl, file, OFD_GETLK if is_description else fcntl.F_GETLK, record)
    if isinstance(result, str):
        return result
    found, _, start, length, pid = struct.unpack(FLOCK, result)
    name = next(name for name, value in TYPES.items() if value == found)
    return name if name == "none" else (name, start, length, pid)


def whole(file, operation):
    """flock(2): `ok`, or the name of the error."""
    return attempt(fcntl.flock, file, operation)


def wait_once(file, kind=None):
    """Waits for a lock of a whole file, by flock(2) unless a kind is named: Python's own calls go on after a signal."""
    if kind is None:
        result = LIBC.flock(file, fcntl.LOCK_EX)
    else:
        result = LIBC.fcntl(file, fcntl.F_SETLKW, struct.pack(FLOCK, TYPES[kind], os.SEEK_SET, 0, 0, 0))
    return "ok" if result == 0 else errno.errorcode[ctypes.get_errno()]


def handle(number, restarts):
    """Handles a signal, after which calls go on or end."""
    signal.signal(number, lambda *_: None)
    signal.siginterrupt(number, not restarts)


class Peer:
    """A process that does one call after the other: `peer.lock(...)` waits for its result, `peer.begin("lock", ...)` does not."""

    CALLS = {
        "open": os.open, "close": os.close, "write": os.pwrite, "read": os.pread, "dup": os.dup,
        "lock": lock, "holder": holder, "whole": whole, "wait_once": wait_once, "handle": handle,
    }  # fmt: skip

    def __init__(self):
        orders, self._orders = os.pipe()
        self._results, results = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._serve(orders, results)
        os.close(orders)
        os.close(results)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @classmethod
    def _serve(cls, orders, results):
        # Locks of open file descriptions would live on in what was inherited.
        last = 2
        for kept in sorted((orders, results)):
            os.closerange(last + 1, kept)
            last = kept
        os.closerange(last + 1, 4096)
        with contextlib.suppress(BaseException), os.fdopen(orders, "rb") as reader, os.fdopen(results, "wb", 0) as writer:
            while True:
                name, arguments, options = pickle.load(reader)
                try:
                    result = cls.CALLS[name](*arguments, **options)
                except OSError as error:
                    result = errno.errorcode[error.errno]
                writer.write(pickle.dumps(result))
        os._exit(0)

    def __getattr__(self, name):
        if name not in self.CALLS:
            raise AttributeError(name)

        def call(*arguments, **options):
            self.begin(name, *arguments, **options)
            return self.result()

        return call

    def begin(self, name, *arguments, **options):
        os.write(self._orders, pickle.dumps((name, arguments, options)))

    def result(self, limit=30):
        """What the last call came to."""
        assert select.select([self._results], [], [], limit)[0], "the call does not return"
        answer = os.read(self._results, 65536)
        assert answer, "the process has ended"
        return pickle.loads(answer)

    def wait_in_a_lock(self):
        """Returns when the process sleeps in fcntl(2) or flock(2)."""
        wait_until(self._is_in_a_lock, 30, "the call to wait", 0.005)

    def _is_in_a_lock(self):
        with open(f"/proc/{self.pid}/syscall") as file:
            return file.read().split()[0] in WAITS

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """SIGKILL; returns when it is gone, with all that it had open."""
        if self.pid is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._orders)
        os.close(self._results)
        self.pid = None


def with_peers(count, body):
    """A case with so many other processes, which have the folder of the case and nothing open."""
    def case():
        peers = [Peer() for _ in range(count)]
        try:
            return body(*peers)
        finally:
            for peer in peers:
                peer.kill()
    case.__name__ = body.__name__
    return case
