# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A service manager in small: a socket that is told of a service's state, and one that starts it when somebody connects."""

import contextlib
import os
import select
import signal
import socket
import threading
import time
import uuid

from .processes import wait_until


class Ear:
    """An abstract notification socket; keeps what it is told, with when."""

    def __init__(self):
        self.name = "@moorage-test-" + uuid.uuid4().hex
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:])
        self.heard = []

    def listen(self):
        """Takes in what has come."""
        while select.select([self.socket], [], [], 0)[0]:
            text = self.socket.recv(65536).decode()
            self.heard += [(time.monotonic(), line) for line in text.split("\n")]
        return [line for _, line in self.heard]

    def wait_for(self, line, seconds=20):
        wait_until(lambda: line in self.listen(), seconds, f"{line}, heard {self.heard}")

    def count(self, line, seconds):
        """How often a line comes within some seconds from now."""
        self.listen()
        before = len(self.heard)
        time.sleep(seconds)
        self.listen()
        return [text for _, text in self.heard[before:]].count(line)

    def close(self):
        self.socket.close()


class Activator:
    """Listens at a path, as a socket unit does, and starts a program for whoever connects while none runs."""

    def __init__(self, path, command, environment, name="control"):
        self.path = path
        self.command = command
        self.environment = environment
        self.name = name
        self.pids = []
        self.statuses = []
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        os.chmod(path, 0o600)
        self.socket.listen(64)
        self.is_stopping = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.is_stopping:
            if not select.select([self.socket], [], [], 0.1)[0]:
                continue
            pid = self._start()
            self.pids.append(pid)
            _, status = os.waitpid(pid, 0)
            self.statuses.append(status)

    def _start(self):
        # The variables name the process itself, which only it can do.
        script = 'exec 3<&"$0"; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES="$1"; shift; exec "$@" 2>> "$LOG"'
        number = self.socket.fileno()
        words = ["/bin/bash", "-c", script, str(number), self.name, *self.command]
        environment = self.environment | {"LOG": os.path.join(os.path.dirname(self.path), "flusher.log")}
        return os.posix_spawn(
            words[0], words, environment, setsid=True,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, number, number)],
        )

    def stop(self):
        self.is_stopping = True
        if len(self.pids) > len(self.statuses):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[-1], signal.SIGKILL)
        self.thread.join(timeout=10)
        self.socket.close()
