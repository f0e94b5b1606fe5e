# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What servers of buckets that are not stored anywhere have in common."""

import http.server
import threading

HEAD = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers whole bodies, of objects that never change their time."""

    protocol_version = "HTTP/1.1"
    # Answers go out at once.
    wbufsize = 1 << 20
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class MadeUpBucket:
    """A server on loopback, at `url` from the beginning until `stop`."""

    def __init__(self, handler):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
