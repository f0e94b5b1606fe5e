# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A forwarding HTTP proxy that wants a login: CONNECT and absolute URLs."""

import base64
import http.client
import http.server
import select
import socket
import threading


class WebProxy:
    def __init__(self, user, password):
        self.requests = []
        wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def is_welcome(self):
                if self.headers.get("Proxy-Authorization") == wanted:
                    proxy.requests.append((self.command, self.path))
                    return True
                self.send_response(407)
                self.send_header("Proxy-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return False

            def do_CONNECT(self):
                if not self.is_welcome():
                    return
                host, _, port = self.path.rpartition(":")
                with socket.create_connection((host, int(port)), 10) as server:
                    self.send_response(200)
                    self.end_headers()
                    relay(self.connection, server)
                self.close_connection = True

            def forward(self):
                if not self.is_welcome():
                    return
                address, _, path = self.path.removeprefix("http://").partition("/")
                server = http.client.HTTPConnection(address, timeout=10)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                fields = {name: value for name, value in self.headers.items() if not name.lower().startswith("proxy-")}
                server.request(self.command, "/" + path, body, fields)
                answer = server.getresponse()
                content = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
                self.send_header("Content-Length", str(length or 0))
                self.end_headers()
                self.wfile.write(content)
                server.close()

            do_GET = do_HEAD = do_PROPFIND = forward

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def relay(one, other):
    """Passes bytes both ways until one side ends."""
    while True:
        for source in select.select([one, other], [], [], 60)[0]:
            data = source.recv(65_536)
            if not data:
                return
            (other if source is one else one).sendall(data)
