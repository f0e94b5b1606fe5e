# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` on raw sockets: framing, smuggling, limits, slow clients, and aws-chunked bodies."""

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import os
import resource
import socket
import time
import urllib.request
import zlib

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY, clean_environment
from harness.processes import Child, run, wait_until

HOST = b"Host: localhost\r\n"
CLOSE = b"Connection: close\r\n"


@pytest.fixture
def open_server(folder, stack, binary):
    """`moorage serve` without a key: its address, with the empty bucket `bucket`."""
    root = os.path.join(folder, "open")
    os.makedirs(os.path.join(root, "bucket"))
    command = [binary, "serve", root, "--listen", "127.0.0.1:0"]
    child = Child(command, ["listening on "], env=clean_environment(), log=os.path.join(folder, "open.log"))
    stack.callback(child.end)
    host, port = child.ready_lines[0].removeprefix("http://").rsplit(":", 1)
    return host, int(port)


@contextlib.contextmanager
def connection(address):
    with socket.create_connection(address, timeout=20) as peer:
        yield peer


class Reader:
    """Reads answers off a socket."""

    def __init__(self, peer):
        self.peer = peer
        self.rest = b""

    def head(self):
        while b"\r\n\r\n" not in self.rest:
            piece = self.peer.recv(65536)
            if not piece:
                raise EOFError(self.rest)
            self.rest += piece
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        fields = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines[1:]}
        return int(lines[0].split()[1]), fields

    def answer(self, has_body=True):
        status, fields = self.head()
        if status < 200:
            return status, fields, b""
        length = int(fields.get("content-length", 0)) if has_body else 0
        while len(self.rest) < length:
            piece = self.peer.recv(65536)
            if not piece:
                raise EOFError
            self.rest += piece
        body, self.rest = self.rest[:length], self.rest[length:]
        return status, fields, body

    def is_closed(self):
        with contextlib.suppress(ConnectionResetError):
            return self.rest == b"" and self.peer.recv(1) == b""
        return True


def ask(address, request):
    """The status of the answer to raw bytes, and whether the connection is closed behind it."""
    with connection(address) as peer:
        peer.sendall(request)
        reader = Reader(peer)
        status, _, _ = reader.answer(has_body=not request.startswith(b"HEAD"))
        peer.settimeout(4)
        try:
            return status, reader.is_closed()
        except TimeoutError:
            return status, False


SMUGGLING = {
    "both lengths": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both lengths, reversed": b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "two equal lengths": b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "length with plus": b"Content-Length: +3\r\n\r\nabc",
    "length list": b"Content-Length: 3,3\r\n\r\nabc",
    "length with space": b"Content-Length: 3 3\r\n\r\nabc",
    "negative length": b"Content-Length: -3\r\n\r\nabc",
    "hexadecimal length": b"Content-Length: 0x3\r\n\r\nabc",
    "empty length": b"Content-Length:\r\n\r\n",
    "huge length": b"Content-Length: 99999999999999999999\r\n\r\n",
    "xchunked": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": b"Transfer-Encoding: identity\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "gzip, chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "vertical tab": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "space before colon": b"Content-Length : 3\r\n\r\nabc",
    "tab before colon": b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "folded line": b"X: a\r\n b\r\nContent-Length: 3\r\n\r\nabc",
    "folded first line": b" Content-Length: 3\r\n\r\nabc",
    "bare line feed": b"Content-Length: 3\n\r\nabc",
    "bare carriage return": b"X: a\rContent-Length: 3\r\n\r\n",
    "zero byte": b"X: a\0b\r\n\r\n",
    "no name": b": value\r\n\r\n",
    "no colon": b"value\r\n\r\n",
    "second host": b"Host: other\r\n\r\n",
}


@pytest.mark.parametrize("fields", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_ambiguous_heads_are_refused(open_server, fields):
    assert ask(open_server, b"PUT /bucket/key HTTP/1.1\r\n" + HOST + fields) == (400, True)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen("http://%s:%d/bucket/key" % open_server)
    assert error.value.code == 404


REQUEST_LINES = {
    "HTTP/0.9": (b"GET /bucket\r\n\r\n", 400),
    "no version": (b"GET /bucket\r\nHost: localhost\r\n\r\n", 400),
    "other version": (b"GET /bucket HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
    "two spaces": (b"GET  /bucket HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "tab": (b"GET\t/bucket HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "leading space": (b" GET /bucket HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "no host": (b"GET /bucket HTTP/1.1\r\n\r\n", 400),
    "other host": (b"GET http://other/bucket HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "no slash": (b"GET bucket HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "fragment": (b"GET /bucket#x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "bad encoding": (b"GET /bucket/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "bare line feeds": (b"GET /bucket HTTP/1.1\nHost: localhost\n\n", 400),
    "long target": (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
    "endless target": (b"GET /" + b"a" * 100_000, 414),
    "long field": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000, 431),
    "many fields": (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 300 + b"\r\n", 431),
    "unknown expectation": (b"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: magic\r\n\r\n", 417),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
}


@pytest.mark.parametrize("request_bytes, status", REQUEST_LINES.values(), ids=REQUEST_LINES.keys())
def test_bad_request_lines_are_refused(open_server, request_bytes, status):
    assert ask(open_server, request_bytes) == (status, True)


CHUNKS = {
    "negative": b"-1\r\nabc\r\n0\r\n\r\n",
    "prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "empty size": b"\r\nabc\r\n0\r\n\r\n",
    "overflow": b"FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
    "space": b"3 \r\nabc\r\n0\r\n\r\n",
    "leading space": b" 3\r\nabc\r\n0\r\n\r\n",
    "longer than its size": b"3\r\nabcd\r\n0\r\n\r\n",
    "shorter than its size": b"3\r\nab\r\n0\r\n\r\n",
    "bare line feed": b"3\nabc\n0\n\n",
    "line feed behind the data": b"3\r\nabc\n0\r\n\r\n",
    "bare line feed in extension": b"3;a\nabc\r\n0\r\n\r\n",
    "bad trailer": b"3\r\nabc\r\n0\r\nX : y\r\n\r\n",
    "folded trailer": b"3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n",
    "long extension": b"3;" + b"a" * 5000 + b"\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
def test_bad_chunks_are_refused_and_store_nothing(open_server, chunks):
    head = b"PUT /bucket/key HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    assert ask(open_server, head + chunks) == (400, True)
    assert ask(open_server, b"HEAD /bucket/key HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")[0] == 404


def test_chunked_requests_with_trailers(open_server):
    with connection(open_server) as peer:
        reader = Reader(peer)
        peer.sendall(b"PUT /bucket/key HTTP/1.1\r\n" + HOST + b"transfer-encoding: CHUNKED\r\n\r\n")
        for piece in [b"3;name=value\r\nabc\r\n", b"00A\r\n0123", b"456789\r", b"\n0\r\nX-T", b": y\r\n\r\n"]:
            time.sleep(0.02)
            peer.sendall(piece)
        assert reader.answer()[0] == 200
        peer.sendall(b"GET /bucket/key HTTP/1.1\r\n" + HOST + b"\r\n")
        assert reader.answer()[2] == b"abc0123456789"


def test_a_server_on_the_loopback_does_not_pace(open_server):
    # Whatever the system's congestion control is: the timers of one that paces, such as BBR, only cost time here.
    with connection(open_server) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        Reader(peer).head()
        ours = f"( sport = :{open_server[1]} and dport = :{peer.getsockname()[1]} )"
        lines = run(["ss", "-OHtni", "state", "established", ours]).stdout.splitlines()
    assert len(lines) == 1, lines
    assert " reno " in lines[0], lines


def test_pipelined_requests_are_answered_in_order(open_server):
    with connection(open_server) as peer:
        reader = Reader(peer)
        requests = b""
        for number in range(50):
            body = b"%d" % number * 10
            requests += b"PUT /bucket/%d HTTP/1.1\r\n" % number + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body
            requests += b"GET /bucket/%d HTTP/1.1\r\n" % number + HOST + b"\r\n"
            requests += b"HEAD /bucket/%d HTTP/1.1\r\n" % number + HOST + b"\r\n"
        peer.sendall(requests)
        for number in range(50):
            assert reader.answer()[0] == 200
            assert reader.answer()[2] == b"%d" % number * 10
            status, fields, _ = reader.answer(has_body=False)
            assert status == 200 and fields["content-length"] == str(len(b"%d" % number * 10))


def test_the_rest_of_a_refused_request_is_not_the_next_request(open_server):
    inner = b"DELETE /bucket/victim HTTP/1.1\r\n" + HOST + b"\r\n"
    with connection(open_server) as peer:
        reader = Reader(peer)
        peer.sendall(b"PUT /bucket/victim HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\nv")
        assert reader.answer()[0] == 200
        # Answered without reading: the inner bytes are content, whatever they look like.
        head = b"PUT /bucket/victim HTTP/1.1\r\n" + HOST + b"If-None-Match: *\r\nContent-Length: %d\r\n\r\n" % len(inner)
        peer.sendall(head + inner + b"GET /bucket/victim HTTP/1.1\r\n" + HOST + b"\r\n")
        assert reader.answer()[0] == 412
        assert reader.answer()[2] == b"v"


def test_continue_is_sent_only_when_the_content_is_wanted(open_server):
    put = b"PUT /bucket/key HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n"
    with connection(open_server) as peer:
        reader = Reader(peer)
        peer.sendall(put + b"\r\n")
        assert reader.answer()[0] == 100
        peer.sendall(b"abc")
        assert reader.answer()[0] == 200
        peer.sendall(put + b"If-None-Match: *\r\n\r\n")
        status, fields, _ = reader.answer()
        assert status == 412 and fields["connection"] == "close"
        assert reader.is_closed()


def test_an_early_refusal_arrives_although_the_content_is_large(open_server):
    with connection(open_server) as peer:
        peer.sendall(b"PUT /nobucket/key HTTP/1.1\r\n" + HOST + b"Content-Length: 50000000\r\n\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(200):
                peer.sendall(b"x" * 65536)
        reader = Reader(peer)
        status, fields, body = reader.answer()
        assert status == 404 and fields["connection"] == "close" and b"NoSuchBucket" in body


def test_cut_content_stores_nothing_and_is_counted(open_server):
    before = stats(open_server)["body_bytes_received"].get("PUT", 0)
    with connection(open_server) as peer:
        peer.sendall(b"PUT /bucket/key HTTP/1.1\r\n" + HOST + b"Content-Length: 1000\r\n\r\n" + b"x" * 600)
        peer.shutdown(socket.SHUT_WR)
        assert Reader(peer).answer()[0] == 400
    assert stats(open_server)["body_bytes_received"]["PUT"] - before == 600
    assert ask(open_server, b"HEAD /bucket/key HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")[0] == 404


def stats(address):
    with urllib.request.urlopen("http://%s:%d/_moorage/stats" % address) as answer:
        return json.load(answer)


def test_http_1_0_and_keep_alive(open_server):
    assert ask(open_server, b"GET / HTTP/1.0\r\n\r\n") == (200, True)
    with connection(open_server) as peer:
        reader = Reader(peer)
        for _ in range(2):
            peer.sendall(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            status, fields, _ = reader.answer()
            assert status == 200 and fields["connection"] == "keep-alive"


def test_web_pages_cannot_use_an_open_server(open_server):
    get = b"GET /bucket HTTP/1.1\r\n"
    assert ask(open_server, get + HOST + b"Connection: close\r\n\r\n")[0] == 200
    assert ask(open_server, get + HOST + CLOSE + b"Origin: https://evil.example\r\n\r\n")[0] == 403
    assert ask(open_server, get + HOST + CLOSE + b"Sec-Fetch-Site: cross-site\r\n\r\n")[0] == 403
    assert ask(open_server, get + CLOSE + b"Host: rebound.example:9000\r\n\r\n")[0] == 403


def test_paths_do_not_leave_the_folder(open_server, folder):
    with open(os.path.join(folder, "secret"), "w") as file:
        file.write("secret")
    paths = ["/bucket/../../secret", "/../secret", "/bucket/%2e%2e/%2e%2e/secret", "/..%2fsecret", "/.moorage/lock"]
    paths += ["/bucket/a%00b", "/.", "/..", "//secret", "/bucket//secret", "/.moorage"]
    for path in paths:
        status = ask(open_server, b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")[0]
        assert status in (400, 404), path
        body = b" HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nConnection: close\r\n\r\nx"
        assert ask(open_server, b"PUT " + path.encode() + body)[0] in (400, 404), path


def test_many_slow_clients_leave_the_server_usable(open_server):
    with contextlib.ExitStack() as stack:
        for number in range(400):
            peer = stack.enter_context(connection(open_server))
            if number % 2:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: local")
            else:
                peer.sendall(b"PUT /bucket/slow%d HTTP/1.1\r\n" % number + HOST + b"Content-Length: 1000\r\n\r\nx")
        began = time.monotonic()
        assert ask(open_server, b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")[0] == 200
        assert time.monotonic() - began < 5


@pytest.mark.limit(60)
def test_a_head_that_never_ends_is_cut(open_server):
    with connection(open_server) as peer:
        peer.settimeout(50)
        reader = Reader(peer)
        for _ in range(3):
            peer.sendall(b"GET / HTTP/1.1\r\nHost: local")
            time.sleep(0.3)
        assert reader.answer()[0] == 408
        assert reader.is_closed()


# aws-chunked bodies


def chunked(data, size=8192, trailers=b"", seal=None):
    """The aws-chunked form of data; `seal` gives the extension of a chunk."""
    body = b""
    for at in list(range(0, len(data), size)) + [len(data)]:
        piece = data[at : at + size]
        body += b"%x" % len(piece) + (seal(piece) if seal else b"") + b"\r\n" + (piece + b"\r\n" if piece else b"")
    return body + trailers + b"\r\n"


def put_chunked(address, headers, body):
    client = http.client.HTTPConnection(*address, timeout=20)
    client.request("PUT", "/bucket/key", body=body, headers=headers)
    answer = client.getresponse()
    return answer.status, answer.read()


def crc(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big"))


def test_unsigned_chunks_with_a_trailer(open_server):
    data = os.urandom(50_000)
    headers = {
        "Content-Encoding": "aws-chunked",
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": str(len(data)),
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    good = chunked(data, trailers=b"x-amz-checksum-crc32:" + crc(data) + b"\r\n")
    assert put_chunked(open_server, headers, good)[0] == 200
    with urllib.request.urlopen("http://%s:%d/bucket/key" % open_server) as answer:
        assert answer.read() == data and answer.headers["Content-Encoding"] is None
    wrong = chunked(data, trailers=b"x-amz-checksum-crc32:" + crc(b"other") + b"\r\n")
    status, text = put_chunked(open_server, headers, wrong)
    assert status == 400 and b"BadDigest" in text
    status, text = put_chunked(open_server, headers, chunked(data))
    assert status == 400
    status, text = put_chunked(open_server, headers | {"x-amz-decoded-content-length": "50001"}, good)
    assert status == 400 and b"IncompleteBody" in text
    status, text = put_chunked(open_server, headers, good[:-10])
    assert status == 400


class Signer:
    """Signs a PUT of /bucket/key with version 4, chunk by chunk."""

    def __init__(self, address, payload, data, trailer=None):
        self.stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.scope = f"{self.stamp[:8]}/us-east-1/s3/aws4_request"
        self.headers = {
            "content-encoding": "aws-chunked",
            "host": "%s:%d" % address,
            "x-amz-content-sha256": payload,
            "x-amz-date": self.stamp,
            "x-amz-decoded-content-length": str(len(data)),
        } | ({"x-amz-trailer": trailer} if trailer else {})
        names = ";".join(sorted(self.headers))
        lines = "".join(f"{name}:{self.headers[name]}\n" for name in sorted(self.headers))
        canonical = f"PUT\n/bucket/key\n\n{lines}\n{names}\n{payload}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        self.previous = self.sign(f"AWS4-HMAC-SHA256\n{self.stamp}\n{self.scope}\n{digest}")
        self.headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{self.scope},SignedHeaders={names},Signature={self.previous}"
        )

    def sign(self, text):
        key = ("AWS4" + SECRET_KEY).encode()
        for step in self.scope.split("/"):
            key = hmac.digest(key, step.encode(), "sha256")
        return hmac.new(key, text.encode(), "sha256").hexdigest()

    def seal(self, piece):
        empty = hashlib.sha256(b"").hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{self.stamp}\n{self.scope}\n{self.previous}\n{empty}\n"
        self.previous = self.sign(text + hashlib.sha256(piece).hexdigest())
        return b";chunk-signature=" + self.previous.encode()

    def trailer(self, lines):
        digest = hashlib.sha256(lines).hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{self.stamp}\n{self.scope}\n{self.previous}\n{digest}"
        return lines.replace(b"\n", b"\r\n") + b"x-amz-trailer-signature:" + self.sign(text).encode() + b"\r\n"


def signed_address(server):
    host, port = server.address.rsplit(":", 1)
    return host, int(port)


def test_signed_chunks(server, client):
    address = signed_address(server)
    data = os.urandom(30_000)
    signer = Signer(address, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", data)
    body = chunked(data, seal=signer.seal)
    assert put_chunked(address, signer.headers, body)[0] == 200
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == data
    tampered = bytearray(body)
    tampered[200] ^= 1
    status, text = put_chunked(address, signer.headers, bytes(tampered))
    assert status == 403 and b"SignatureDoesNotMatch" in text
    status, _ = put_chunked(address, signer.headers, chunked(data))
    assert status == 400
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == data


def test_signed_chunks_with_a_signed_trailer(server, client):
    address = signed_address(server)
    data = os.urandom(30_000)
    line = b"x-amz-checksum-crc32:" + crc(data) + b"\n"
    for is_right in (True, False):
        signer = Signer(address, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", data, "x-amz-checksum-crc32")
        pieces = chunked(data, seal=signer.seal)[:-2]
        trailer = signer.trailer(line if is_right else line.replace(b"x-", b"y-"))
        status, _ = put_chunked(address, signer.headers, pieces + trailer + b"\r\n")
        assert (status == 200) == is_right
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == data


def test_a_wrong_clock_is_told(server):
    address = signed_address(server)
    signer = Signer(address, "UNSIGNED-PAYLOAD", b"")
    old = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=16)).strftime("%Y%m%dT%H%M%SZ")
    headers = {name: value.replace(signer.stamp, old).replace(signer.stamp[:8], old[:8]) for name, value in signer.headers.items()}
    status, text = put_chunked(address, headers, b"")
    assert status == 403 and b"RequestTimeTooSkewed" in text


# The command


def test_the_command_refuses_what_is_not_safe(binary, folder):
    environment = clean_environment()
    result = run([binary, "serve", folder, "--listen", "0.0.0.0:0"], check=False, env=environment)
    assert result.returncode == 1 and "--access-key" in result.stderr and result.stderr.count("\n") == 1
    result = run([binary, "serve", folder, "--listen", "127.0.0.1:0", "--access-key", "ID"], check=False, env=environment)
    assert result.returncode == 1 and "MOORAGE_SERVE_SECRET_KEY" in result.stderr
    result = run([binary, "serve", folder + "/missing", "--listen", "127.0.0.1:0"], check=False, env=environment)
    assert result.returncode == 1 and "missing" in result.stderr
    result = run([binary, "serve", folder, "--listen", "nonsense"], check=False, env=environment)
    assert result.returncode == 2


def test_a_folder_has_one_server(open_server, binary, folder):
    result = run([binary, "serve", os.path.join(folder, "open"), "--listen", "127.0.0.1:0"], check=False)
    assert result.returncode == 1 and result.stderr.count("\n") == 1


def test_more_clients_than_connections_are_told_to_wait(open_server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connection(open_server)) for _ in range(1024)]
        with connection(open_server) as peer:
            assert Reader(peer).answer()[0] == 503
        for peer in peers[:10]:
            peer.close()
        request = b"GET / HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
        wait_until(lambda: ask(open_server, request)[0] == 200, 20, "room for others")
