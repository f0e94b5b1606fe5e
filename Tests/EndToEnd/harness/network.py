# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Two machines and a cable between them: network namespaces that belong to one test."""

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import urllib.request

from .bucket import BucketServer, s3_client
from .processes import run

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = itertools.count()


def missing():
    """Why there can be no such network here; None when there can."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("ip", "nft", "tc", "nsenter", "ss"):
        if shutil.which(program) is None:
            return f"needs {program}"
    name = f"moorage-test-{os.getpid()}"
    if run(["ip", "netns", "add", name], check=False).returncode != 0:
        return "network namespaces cannot be made"
    run(["ip", "netns", "delete", name])
    return None


class Network:
    """`machine` has the product, 10.77.0.1 and fd77::1; `server` has the servers, 10.77.0.2 and fd77::2, and is the
    way to everywhere else."""

    ADDRESS = "10.77.0.2"

    def __init__(self, folder, stack):
        self.folder = folder
        mark = f"{os.getpid()}-{next(NUMBERS)}"
        self.names = {side: f"moorage-{side[0]}-{mark}" for side in ("machine", "server")}
        for side, name in self.names.items():
            run(["ip", "netns", "add", name])
            stack.callback(run, ["ip", "netns", "delete", name], check=False)
            self.ip(side, "link", "set", "lo", "up")
        self.ip("machine", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.names["server"])
        for side, host in (("machine", 1), ("server", 2)):
            self.ip(side, "address", "add", f"10.77.0.{host}/24", "dev", "cable")
            self.ip(side, "address", "add", f"fd77::{host}/64", "dev", "cable", "nodad")
            self.ip(side, "link", "set", "cable", "up")
        self.route()

    def route(self):
        """The way to other networks, which goes with the link."""
        self.ip("machine", "route", "replace", "default", "via", self.ADDRESS)

    def ip(self, side, *words, check=True):
        return run(["ip", "-n", self.names[side], *words], check=check)

    def words(self, side):
        """What makes the command that follows run on a side."""
        return ["nsenter", f"--net=/run/netns/{self.names[side]}"]

    def run(self, side, *command, check=True, timeout=60):
        return run([*self.words(side), *command], check=check, timeout=timeout)

    def nft(self, rules):
        """Replaces the machine's packet filter: statements about what goes out."""
        lines = "".join(f"add rule inet moorage output {rule}\n" for rule in rules)
        table = "add table inet moorage\ndelete table inet moorage\nadd table inet moorage\n"
        chain = "add chain inet moorage output { type filter hook output priority 0; policy accept; }\n"
        path = os.path.join(self.folder, "rules.nft")
        with open(path, "w") as file:
            file.write(table + chain + lines)
        self.run("machine", "nft", "-f", path)

    def binary(self, side, program):
        """A program that runs the program on a side."""
        path = os.path.join(self.folder, f"{os.path.basename(program)}-{side}")
        with open(path, "w") as file:
            file.write(f'#!/bin/sh\nexec {" ".join(self.words(side))} {program} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def counter(self, name):
        """`rx_bytes` and the like of the machine's end of the cable."""
        links = json.loads(run(["ip", "-n", self.names["machine"], "-s", "-j", "link", "show", "cable"]).stdout)
        direction, _, kind = name.partition("_")
        return links[0]["stats64"][direction][kind]

    @contextlib.contextmanager
    def inside(self, side):
        """Sockets that this thread makes meanwhile are of that side."""
        with open("/proc/thread-self/ns/net") as here, open(f"/run/netns/{self.names[side]}") as there:
            enter(there)
            try:
                yield
            finally:
                enter(here)


def enter(file):
    if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class FarServer(BucketServer):
    """`moorage serve` on the other side of the cable."""

    def __init__(self, binary, root, network):
        self.network = network
        super().__init__(network.binary("server", binary), root)

    def _start(self, listen):
        port = listen.rpartition(":")[2]
        super()._start(f"0.0.0.0:{port}")
        port = self.address.rpartition(":")[2]
        self.address = f"{Network.ADDRESS}:{port}"
        self.url = f"http://{self.address}"

    def _counters(self):
        port = self.address.rpartition(":")[2]
        with self.network.inside("server"):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_moorage/stats", timeout=10) as response:
                return json.load(response)

    def client(self):
        return FarClient(s3_client(self.url), self.network)


class FarClient:
    """A client whose calls are made on the server's side."""

    def __init__(self, client, network):
        self._client = client
        self._network = network

    def __getattr__(self, name):
        method = getattr(self._client, name)

        def call(*arguments, **named):
            with self._network.inside("server"):
                answer = method(*arguments, **named)
                if "Body" in getattr(answer, "keys", list)():
                    answer["Body"] = Body(answer["Body"].read())
                return answer

        return call


class Body:
    """The content of an answer, read before the namespace is left."""

    def __init__(self, content):
        self.content = content

    def read(self, count=None):
        piece = self.content if count is None else self.content[:count]
        self.content = self.content[len(piece):]
        return piece

    def iter_chunks(self, size):
        while self.content:
            yield self.read(size)
