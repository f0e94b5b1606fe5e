# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Somebody stands between us and the remote: a network that wants a login, or a remote that wants other keys."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY
from harness.processes import wait_until
from harness.trees import write_file

MIB = 1 << 20


class Portal:
    """Stands on the port of a server that is away, and answers everything itself."""

    def __init__(self, address, kind):
        self.requests = 0
        portal = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                portal.requests += 1
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                page = b"<!DOCTYPE html><html><body>Welcome to the hotel</body></html>"
                self.send_response({"redirect": 302, "page": 200, "status": 511}[kind])
                if kind == "redirect":
                    self.send_header("Location", "http://login.hotel.test/?session=1")
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(page)

            do_GET = do_PUT = do_POST = do_HEAD = do_PATCH = do_DELETE = do_OPTIONS = answer

            def log_message(self, *_):
                pass

        host, _, port = address.rpartition(":")
        ThreadingHTTPServer.allow_reuse_address = True
        self.server = ThreadingHTTPServer((host, int(port)), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def reasons(instance):
    found = {item["reason"] for upload in instance.uploads() for item in upload["waiting"]}
    return found - {"quiet", "backoff"}


@pytest.mark.parametrize("kind", ["redirect", "page", "status"])
def test_a_network_that_wants_a_login_is_waited_for(server, make_instance, stack, kind):
    instance = make_instance(server.url, "instance")
    mount = instance.mount("s3://bucket")
    write_file(mount / "before", b"1")
    instance.flush()
    server.kill()
    portal = Portal(server.address, kind)
    stack.callback(portal.stop)
    write_file(mount / "small", b"2")
    write_file(mount / "large", os.urandom(9 * MIB))
    wait_until(lambda: reasons(instance) == {"captive-portal"}, 60, "uploads that wait for a login")
    asked = portal.requests
    time.sleep(6)
    assert reasons(instance) == {"captive-portal"}
    assert portal.requests - asked <= 10
    assert all(upload["attempts"] == 0 and upload["state"] == "waiting" for upload in instance.uploads())
    assert "captive-portal" in instance.run("uploads", "why", "--all").stdout
    portal.stop()
    server.restart()
    wait_until(lambda: instance.pending_files() == 0, 60, "the uploads to go on by themselves")
    assert server.client().get_object(Bucket="bucket", Key="small")["Body"].read() == b"2"


def test_keys_that_are_renewed_are_picked_up(server, make_instance):
    """From the file that they are in."""
    instance = make_instance(server.url, "instance")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del instance.environment[name]
    keys = os.path.join(instance.environment["HOME"], ".aws", "credentials")
    os.makedirs(os.path.dirname(keys))

    def write_keys(secret):
        write_file(keys, f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {secret}\n".encode())

    write_keys(SECRET_KEY)
    mount = instance.mount("s3://bucket")
    write_file(mount / "before", b"1")
    instance.flush()
    write_keys("not-the-secret-any-more-0000000000001")
    instance.kill_flusher()
    write_file(mount / "a", b"2")
    wait_until(lambda: reasons(instance) == {"auth"}, 60, "an upload that waits for other keys")
    pid = instance.flusher_pid()
    write_keys(SECRET_KEY)
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
    assert instance.flusher_pid() == pid


def test_a_command_with_other_keys_hands_them_over(server, make_instance):
    instance = make_instance(server.url, "instance")
    mount = instance.mount("s3://bucket")
    write_file(mount / "before", b"1")
    instance.flush()
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "a", b"2")
    # The mount would hand over its own.
    instance.run("unmount", mount.path)
    instance.kill_flusher()
    instance.environment["AWS_SECRET_ACCESS_KEY"] = "not-the-secret-any-more-0000000000001"
    instance.run("policy", "unset")
    wait_until(lambda: reasons(instance) == {"auth"}, 60, "an upload that waits for other keys")
    pid = instance.flusher_pid()
    instance.environment["AWS_SECRET_ACCESS_KEY"] = SECRET_KEY
    instance.run("uploads", "list")
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
    assert instance.flusher_pid() == pid
    assert server.client().get_object(Bucket="bucket", Key="a")["Body"].read() == b"2"
