# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""HTTP/1.1 by hand: sees interim responses, and sends less, or slower, than it promised."""

import socket


class Response:
    """One response, interim or final; field names in lower case."""

    def __init__(self, status, fields, body=b""):
        self.status = status
        self.fields = fields
        self.body = body

    def __getitem__(self, name):
        return self.fields[name.lower()]

    def get(self, name):
        return self.fields.get(name.lower())

    def __repr__(self):
        return f"{self.status} {self.fields} {self.body[:200]!r}"


class Wire:
    """A connection to a server."""

    def __init__(self, address, timeout=20):
        host, port = address.rsplit(":", 1)
        self.host = address
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def begin(self, method, target, fields=None, length=None):
        """Sends a head."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}"]
        lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send(self, data):
        self.socket.sendall(data)

    def _line(self):
        while b"\n" not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the connection ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.rstrip(b"\r").decode()

    def _head(self):
        status = int(self._line().split(" ", 2)[1])
        fields = {}
        while line := self._line():
            name, value = line.split(":", 1)
            assert name.lower() not in fields, f"{name} comes twice"
            fields[name.lower()] = value.strip()
        return Response(status, fields)

    def response(self, method="GET"):
        """The next response, interim or final."""
        response = self._head()
        if response.status < 200 or response.status in (204, 304) or method == "HEAD":
            return response
        length = int(response["Content-Length"])
        while len(self.buffer) < length:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError("the connection ended in the content")
            self.buffer += data
        response.body, self.buffer = self.buffer[:length], self.buffer[length:]
        return response

    def final(self, method="GET"):
        """The interim responses up to the final one, and that."""
        interim = []
        while (response := self.response(method)).status < 200:
            interim.append(response)
        return interim, response

    def ask(self, method, target, fields=None, body=b""):
        """A whole request; returns the interim responses and the final one."""
        length = len(body) if method in ("PUT", "POST", "PATCH") else None
        self.begin(method, target, fields, length)
        self.send(body)
        return self.final(method)
