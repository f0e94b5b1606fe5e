# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Takes what is sent to it, and counts it."""

import contextlib
import socket
import threading
import time


class Sink:
    """Listens on a side of a network, throws away what comes and remembers when how much had come."""

    def __init__(self, network, stack, side="server"):
        self.total = 0
        self.samples = []
        self.is_over = False
        with network.inside(side):
            self.listener = socket.create_server(("0.0.0.0", 0))
        self.port = self.listener.getsockname()[1]
        stack.callback(self.stop)
        for body in (self._accept, self._sample):
            threading.Thread(target=body, daemon=True).start()

    def stop(self):
        self.is_over = True
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while not self.is_over:
                threading.Thread(target=self._take, args=(self.listener.accept()[0],), daemon=True).start()

    def _take(self, connection):
        with contextlib.suppress(OSError), connection:
            while piece := connection.recv(1 << 18):
                self.total += len(piece)

    def _sample(self):
        while not self.is_over:
            self.samples.append((time.monotonic(), self.total))
            time.sleep(0.02)

    def rate(self, start, end):
        """Bytes a second between two times of the past."""
        count = [max((total for moment, total in self.samples if moment <= edge), default=0) for edge in (start, end)]
        return (count[1] - count[0]) / (end - start)
