# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` without credentials, and what the tests of its resumable uploads ask it."""

import json
import os
import random
import signal
import socket

from .bucket import clean_environment
from .processes import Child, wait_until

TARGET = "/bucket/dir/object"


class OpenServer:
    """`moorage serve` without credentials: on loopback it takes unsigned requests."""

    def __init__(self, binary, folder):
        self.binary = binary
        self.root = os.path.join(folder, "open")
        self.log = os.path.join(folder, "open-server.log")
        os.makedirs(os.path.join(self.root, "bucket"))
        self.start("127.0.0.1:0")

    def start(self, listen):
        command = [self.binary, "serve", self.root, "--listen", listen, "--foreground"]
        self.child = Child(command, ["listening on "], env=clean_environment(), log=self.log)
        self.address = self.child.ready_lines[0].removeprefix("http://").rstrip("/")

    def restart(self, how=signal.SIGKILL):
        self.child.end(how)
        self.start(self.address)

    def stop(self):
        self.child.end()


def stored(dialect, target=TARGET):
    """The object's content by a plain GET, None when there is none."""
    with dialect.wire() as wire:
        _, response = wire.ask("GET", target)
    return response.body if response.status == 200 else None


def received(dialect):
    """The content bytes that the server has read since its start."""
    with dialect.wire() as wire:
        _, response = wire.ask("GET", "/_moorage/stats")
    return sum(json.loads(response.body)["body_bytes_received"].values())


def send_and_see(dialect, wire, data):
    """Sends content and waits until the server has read it."""
    before = received(dialect)
    wire.send(data)
    wait_until(lambda: received(dialect) == before + len(data), 20, "the content to be read")


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


def cut_creation(dialect, sent, declared, graceful=True):
    """Sends part of a creation's content and closes; returns the upload's URL."""
    wire = dialect.wire()
    wire.begin("PUT", TARGET, dialect.fields(complete=True), declared)
    announced = wire.response()
    assert announced.status == 104
    if graceful:
        before = received(dialect)
        wire.send(sent)
        wire.socket.close()
        wait_until(lambda: received(dialect) == before + len(sent), 20, "all that came before the end to be read")
    else:
        # A reset drops what is in the sockets.
        send_and_see(dialect, wire, sent)
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        wire.socket.close()
    return announced["Location"]
