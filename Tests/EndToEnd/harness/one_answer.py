# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A web server that knows no ranges and has weak tags: it sends its files whole, or as far as the test lets it."""

import http.server
import json
import threading

TIMES = {"Last-Modified": "Sun, 13 Sep 2020 12:26:40 GMT", "Date": "Mon, 14 Sep 2020 12:26:40 GMT"}


class OneAnswerServer:
    def __init__(self, files):
        self.files = dict(files)
        self.tag = 'W/"one"'
        # How many bytes of an answer are sent for the time being; None: all.
        self.limit = None
        # The files that were asked for, and those whose answers ended as the client was gone.
        self.asked = []
        self.left = []
        self.changed = threading.Condition()
        self.is_over = False
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _handler(self):
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_PROPFIND(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.answer(405, {}, b"")

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                name = self.path[1:]
                if not name:
                    return self.answer(200, {"Content-Type": "application/json"}, web.page())
                if name not in web.files:
                    return self.answer(404, {}, b"")
                fields = TIMES | {"ETag": web.tag}
                if self.command == "GET":
                    web.note(web.asked, name)
                return self.answer(200, fields, web.files[name], name)

            def answer(self, status, fields, body, name=None):
                self.send_response_only(status)
                for field, value in (fields | {"Content-Length": str(len(body))}).items():
                    self.send_header(field, value)
                self.end_headers()
                if self.command == "HEAD":
                    return
                try:
                    self.send(body, name)
                except OSError:
                    web.note(web.left, name)
                    self.close_connection = True

            def send(self, body, name):
                position = 0
                while position < len(body):
                    end = len(body) if web.limit is None or name is None else min(len(body), web.limit)
                    if position < end:
                        piece = body[position:min(end, position + 65_536)]
                        self.wfile.write(piece)
                        position += len(piece)
                    else:
                        self.wait_for_more()

            def wait_for_more(self):
                """The client says nothing in the middle of an answer: what can be read is its end."""
                self.connection.settimeout(0.05)
                try:
                    self.connection.recv(1)
                    raise ConnectionResetError
                except TimeoutError:
                    pass
                finally:
                    self.connection.settimeout(None)
                if web.is_over:
                    raise ConnectionResetError

        return Handler

    def page(self):
        rows = [{"name": name, "type": "file", "mtime": TIMES["Last-Modified"], "size": len(body)} for name, body in self.files.items()]
        return json.dumps(rows).encode()

    def note(self, where, name):
        with self.changed:
            where.append(name)
            self.changed.notify_all()

    def wait_until_left(self, count, timeout=40):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.left) >= count, timeout), "nobody gave up an answer"

    def stop(self):
        self.is_over = True
        self.server.shutdown()
        self.server.server_close()
