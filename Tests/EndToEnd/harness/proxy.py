# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The fault proxy as a fixture: its verbs as methods."""

import json
import os
import socket
import urllib.parse

from .processes import Child, Failure


class Rule:
    """A rule in the proxy, to be waited for and released."""

    def __init__(self, proxy, number):
        self.proxy = proxy
        self.number = number

    def wait(self, matched=1, timeout=30):
        """Waits until the rule has acted on that many requests."""
        self.proxy.command("wait", id=self.number, matched=matched, timeout=timeout)

    def wait_detained(self, count=1, timeout=30):
        """Waits until that many whole requests are in the proxy, to be delivered later."""
        self.proxy.command("wait", id=self.number, detained=count, timeout=timeout)

    def matched(self):
        try:
            answer = self.proxy.command("wait", id=self.number, matched=0, timeout=0)
        except Failure as failure:
            answer = str(failure)
        return int(answer.rsplit("matched=", 1)[1])

    def release(self):
        self.proxy.command("release", id=self.number)

    def remove(self):
        self.proxy.command("remove", id=self.number)


class FaultProxy:
    """A running `moorage-fault-proxy` before one server."""

    def __init__(self, binary, upstream, folder):
        command = [binary, "--upstream", upstream]
        log = os.path.join(folder, "proxy.log")
        self.child = Child(command, ["listening on ", "control on "], log=log)
        self.address, control = self.child.ready_lines
        self.url = f"http://{self.address}"
        host, port = control.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._file = self._socket.makefile("rw", encoding="utf-8", newline="\n")

    def command(self, verb, **values):
        """Sends one line and returns what follows `ok`."""
        words = [verb] + [
            f"{name.replace('_', '-')}={urllib.parse.quote(str(value), safe='')}"
            for name, value in values.items()
            if value is not None
        ]
        self._file.write(" ".join(words) + "\n")
        self._file.flush()
        answer = self._file.readline().rstrip("\n")
        if not answer.startswith("ok"):
            raise Failure(f"the fault proxy refused {words}: {answer}")
        return answer[3:]

    def rule(self, action, **values):
        """Adds a rule; see ControlLine+Rule.swift for actions and their values."""
        return Rule(self, int(self.command("rule", action=action, **values).removeprefix("id=")))

    def refuse_metadata(self):
        """Makes the server one that does not tell metadata with a listing: it is asked for with a HEAD each."""
        body = "<Error><Code>NotImplemented</Code></Error>"
        return self.rule("respond", times="all", query="metadata=true", status=501, body=body)

    def clear(self):
        self.command("clear")

    def mode(self, to):
        self.command("mode", to=to)

    def offline(self):
        """Refuses new connections and resets the live ones."""
        self.mode("refuse")
        self.cut()

    def online(self):
        self.mode("pass")

    def cut(self, how="rst"):
        """Cuts all live connections and returns their number."""
        return int(self.command("cut", how=how).removeprefix("cut="))

    def cut_at_totals(self, offsets, direction="request", how="rst", scope="one"):
        joined = ",".join(str(offset) for offset in offsets)
        self.command("cut-total", offsets=joined, direction=direction, how=how, scope=scope)

    def limit(self, up=None, down=None, latency=None):
        """Rates in bytes a second and a delay before each request in milliseconds."""
        self.command("limit", up=up, down=down, latency=latency)

    def stats(self):
        return json.loads(self.command("stats"))

    def zero(self):
        self.command("zero")

    def body_bytes(self):
        """The content bytes of all requests that clients got rid of."""
        return self.stats()["request_bytes"]

    def requests(self, kind=None, path=None):
        """The finished requests, oldest first, of one kind such as `PUT object` and with a text in the path."""
        return [
            record
            for record in json.loads(self.command("requests"))
            if (kind is None or record["kind"] == kind) and (path is None or path in record["path"])
        ]

    def stop(self):
        self._socket.close()
        self.child.end()
