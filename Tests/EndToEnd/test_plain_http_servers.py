# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Folders of plain web servers, mounted and read while their files change: never a mixture of versions."""

import errno
import os
import random
import shutil
import threading
import time
import urllib.request

import pytest

from harness.instance import Mount
from harness.processes import run, wait_until
from harness.settings import scaled
from harness.trees import fingerprint, make_tree, random_bytes, write_file
from harness.web_proxy import WebProxy
from harness.web_servers import SERVERS, WebServer, program
from test_changed_under_reader import PAGE, content, version_of

ODD_NAMES = ["a b", "50%", "plus+and&amp;", "ümlaut", "#hash?", "quote'\"", "semi;colon", "dots..", "%41", "<tag>"]


def program_of(kind):
    return {"apache": "apache2"}.get(kind.split("-")[0], kind.split("-")[0])


@pytest.fixture
def make_web(folder, stack):
    def make(kind, below=folder, **words):
        os.makedirs(below, exist_ok=True)
        if not program(program_of(kind)):
            pytest.fail(f"there is no {program_of(kind)}: run Scripts/bootstrap")
        server = WebServer(kind, below, **words)
        stack.callback(server.stop)
        return server

    return make


@pytest.fixture(params=SERVERS)
def web(request, make_web):
    return make_web(request.param)


@pytest.fixture
def web_instance(make_instance):
    return make_instance(None, "web-client")


def mount_web(instance, remote, *options, check=True, env=None):
    """Mounts a web server's folder; gives the mount, or the failed command when `check` is off."""
    path = instance.directory(f"mnt/{len(instance.mounts)}")
    os.makedirs(path, exist_ok=True)
    words = ["-o", ",".join(options)] if options else []
    result = instance.run("mount", remote, path, *words, check=check, env=env)
    if result.returncode != 0:
        return result
    mount = Mount(instance, remote, path, options)
    mount.note = result.stdout + result.stderr
    instance.mounts.append(mount)
    return mount


def age(root, seconds=3600):
    """Makes everything look as if it had not been changed for a while."""
    then = time.time() - seconds
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            os.utime(os.path.join(folder, name), (then, then))


@pytest.mark.limit(90)
def test_a_tree_reads_the_same_and_changes_show(web, web_instance, seed):
    web_instance.configure(metadata_age="1s", kernel_age="0s")
    make_tree(web.root, 30, 5_000, seed, per_folder=15)
    os.makedirs(os.path.join(web.root, "deep/er/yet"))
    write_file(os.path.join(web.root, "deep/er/yet/file"), b"deep")
    write_file(os.path.join(web.root, "empty"), b"")
    write_file(os.path.join(web.root, "big"), random_bytes(seed, 5_000_000))
    for name in ODD_NAMES:
        write_file(os.path.join(web.root, name), name.encode())
    age(web.root)
    write_file(os.path.join(web.root, "young"), b"just written")
    mount = mount_web(web_instance, web.url)
    expected = fingerprint(web.root)
    if SERVERS[web.kind] is None:
        assert "not listed" in mount.note
        with pytest.raises(PermissionError):
            os.listdir(mount.path)
        for name, entry in expected.items():
            if entry[0] == "file":
                with open(os.path.join(web.root, name), "rb") as served, open(mount / name, "rb") as file:
                    assert file.read() == served.read(), name
        assert not os.path.exists(mount / "absent")
    else:
        assert fingerprint(mount.path) == expected
    times = {name: int(os.stat(mount / name).st_mtime) for name in ("big", "empty")}
    if web.kind != "lighttpd-no-validators":
        assert times == {name: int(os.stat(os.path.join(web.root, name)).st_mtime) for name in times}
    with open(mount / "big", "rb") as file:
        file.seek(4_000_000)
        assert file.read(1000) == random_bytes(seed, 5_000_000)[4_000_000:4_001_000]
    with pytest.raises(OSError) as problem:
        open(mount / "new", "w")
    assert problem.value.errno == errno.EROFS
    changes_show(web, mount)


def changes_show(web, mount):
    os.unlink(os.path.join(web.root, "big"))
    shutil.rmtree(os.path.join(web.root, "deep/er"))
    write_file(os.path.join(web.root, "empty"), b"22")
    write_file(os.path.join(web.root, "deep/new"), b"333")
    wait_until(lambda: not os.path.exists(mount / "big"), 10)
    wait_until(lambda: not os.path.exists(mount / "deep/er"), 10)
    wait_until(lambda: open(mount / "empty", "rb").read() == b"22", 10)
    wait_until(lambda: os.path.exists(mount / "deep/new"), 10)
    assert open(mount / "deep/new", "rb").read() == b"333"


@pytest.mark.limit(60)
@pytest.mark.parametrize("apart", ["servers", "folders"])
def test_files_that_look_the_same_are_not_taken_for_those_of_another_volume(make_web, web_instance, folder, seed, apart):
    """Of one name, size and time, and so of one tag, but in two volumes that share the state and the cache folder."""
    web_instance.configure(cache_free="0")
    webs = [make_web("nginx-json"), make_web("nginx-json", os.path.join(folder, "elsewhere"))]
    places = [(webs[0], "one/"), (webs[0], "two/")] if apart == "folders" else [(web, "one/") for web in webs]
    contents = [random_bytes(seed + number, 3_000_000) for number in range(2)]
    for (web, name), data in zip(places, contents):
        os.makedirs(os.path.join(web.root, name))
        path = os.path.join(web.root, name, "file")
        write_file(path, data)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    tags = {urllib.request.urlopen(f"{web.url}{name}file").headers["ETag"] for web, name in places}
    assert len(tags) == 1
    fetches = []
    for number in (0, 1, 0, 1):
        web, name = places[number]
        mount = mount_web(web_instance, web.url + name)
        fetched = web.requests("GET").count(f"/{name}file")
        assert open(mount / "file", "rb").read() == contents[number]
        mount.unmount()
        fetches.append(web.requests("GET").count(f"/{name}file") - fetched)
    # The second time it was the cache that told them apart, and not the servers.
    assert fetches[2:] == [0, 0]


class Replacer(threading.Thread):
    """Replaces files by renaming, all versions of one length: young ones, and ones that look old."""

    PAGES = 96

    def __init__(self, root, names, seed):
        super().__init__(daemon=True)
        self.root, self.names = root, names
        self.generator = random.Random(seed)
        self.version = 0
        self.ending = threading.Event()
        self.began = time.time()
        for name in names:
            self.replace(name)

    def replace(self, name):
        self.version += 1
        temporary = os.path.join(os.path.dirname(self.root), "replacement")
        write_file(temporary, content(self.version, self.PAGES))
        os.chmod(temporary, 0o644)
        if self.generator.random() < 0.5:
            # A time of its own, long ago: a strong validator at once.
            then = self.began - 1_000_000 + self.version * 2
            os.utime(temporary, (then, then))
        os.rename(temporary, os.path.join(self.root, name))

    def run(self):
        while not self.ending.wait(self.generator.choice([0, 0.002, 0.01, 0.04])):
            self.replace(self.generator.choice(self.names))


def read_in_pieces(path, generator):
    """Reads a file in random pieces: the versions seen, and whether it came to the end."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        seen = set()
        offset = generator.choice([0, 0, 40])
        while offset < Replacer.PAGES:
            data = os.pread(descriptor, generator.choice([1, 3, 16, 32]) * PAGE, offset * PAGE)
            assert data, "the file ended early"
            seen.add(version_of(data, offset))
            offset += len(data) // PAGE
            time.sleep(generator.choice([0, 0, 0, 0.005]))
        assert len(seen) == 1, f"one open file gave the versions {seen}"
    finally:
        os.close(descriptor)


@pytest.mark.limit(60)
def test_no_read_mixes_versions(web, web_instance, seed):
    web_instance.configure(metadata_age="0s", kernel_age="0s")
    names = ["a", "b", "c"]
    replacer = Replacer(web.root, names, seed)
    mount = mount_web(web_instance, web.url, "block_size=64k", f"cache_size={random.Random(seed).choice(['0', '1G'])}")
    generator = random.Random(seed + 1)
    outcomes = {"whole": 0, "refused": 0}
    replacer.start()
    end = time.monotonic() + 1.2 * scaled(1)
    # A busy machine takes longer for enough to happen.
    while time.monotonic() < end or replacer.version < 25 or sum(outcomes.values()) < 10:
        try:
            read_in_pieces(mount / generator.choice(names), generator)
            outcomes["whole"] += 1
        except OSError as problem:
            # rclone and others break an answer off when its file goes away, which is an error and no wrong byte.
            assert problem.errno in (errno.ESTALE, errno.EIO, errno.ENOENT), problem
            outcomes["refused"] += 1
    replacer.ending.set()
    replacer.join()
    print(web.kind, outcomes, "versions:", replacer.version)
    # At rest every file is readable, and the newest.
    for name in names:
        with open(os.path.join(web.root, name), "rb") as file:
            expected = file.read()
        wait_until(lambda: open(mount / name, "rb").read() == expected, 10, f"the last version of {name}")


def section(instance, name, remote, **keys):
    """Adds a volume to the configuration file."""
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        lines = [f"remote = {remote}"] + [f"{key} = {value}" for key, value in keys.items()]
        file.write(f"[volume {name}]\n" + "\n".join(lines) + "\n")


def one_line(result, *words):
    """Checks that a failed command said one line with these words in it, and no secret."""
    assert result.returncode == 1 and len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert all(word in result.stderr for word in words) and "s3cret" not in result.stderr, result.stderr


@pytest.mark.limit(60)
def test_logins(make_web, web_instance, folder):
    users = os.path.join(folder, "users")
    write_file(users, b"me:{PLAIN}s3cret\n")
    os.chmod(users, 0o644)
    web = make_web("nginx-json", server=f'auth_basic "x"; auth_basic_user_file {users};')
    write_file(os.path.join(web.root, "file"), b"for me")
    age(web.root)
    one_line(mount_web(web_instance, web.url, check=False), "login", ".netrc")
    section(web_instance, "wrong", web.url, username="me", password="s3cret-not")
    section(web_instance, "right", web.url, username="me", password="s3cret")
    one_line(mount_web(web_instance, "wrong", check=False), "login")
    mount = mount_web(web_instance, "right")
    assert open(mount / "file", "rb").read() == b"for me"
    words = open(f"/proc/{mount.pid}/cmdline").read() + web_instance.run("status", "--json").stdout
    assert "s3cret" not in words
    for base, _, files in os.walk(web_instance.folder):
        for name in files:
            if "/mnt" not in base and name != "config" and os.path.isfile(os.path.join(base, name)):
                with open(os.path.join(base, name), "rb") as file:
                    assert b"s3cret" not in file.read(), os.path.join(base, name)
    mount.unmount()
    with open(os.path.join(web_instance.environment["HOME"], ".netrc"), "w") as file:
        file.write("machine 127.0.0.1 login me password s3cret\n")
    assert open(mount_web(web_instance, web.url) / "file", "rb").read() == b"for me"
    os.chmod(web_instance.environment["MOORAGE_CONFIG"], 0o644)
    refused = web_instance.run("status", check=False)
    assert refused.returncode == 1 and "chmod 600" in refused.stderr


def make_certificates(folder):
    """An authority, a certificate of it for 127.0.0.1 and one for a client."""
    run(["bash", "-euo", "pipefail", "-c", """
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
        for name in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$name -keyout $name.key -out $name.csr
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $name.pem \
                -extfile <(echo subjectAltName=IP:127.0.0.1)
        done"""], cwd=folder)
    return {name: os.path.join(folder, name) for name in os.listdir(folder)}


@pytest.mark.limit(60)
def test_tls_with_an_authority_and_a_client_certificate(make_web, web_instance, folder):
    os.makedirs(os.path.join(folder, "tls"))
    files = make_certificates(os.path.join(folder, "tls"))
    web = make_web("nginx-json", listen="ssl", server=f"""
        ssl_certificate {files["server.pem"]}; ssl_certificate_key {files["server.key"]};
        ssl_client_certificate {files["ca.pem"]}; ssl_verify_client on;""")
    write_file(os.path.join(web.root, "file"), b"in secret")
    age(web.root)
    url = web.url.replace("http:", "https:")
    one_line(mount_web(web_instance, url, check=False), "no secure connection")
    authority = f"ca_file={files['ca.pem']}"
    one_line(mount_web(web_instance, url, authority, check=False), "400")
    # The certificate is for another name.
    one_line(mount_web(web_instance, url.replace("127.0.0.1", "localhost"), authority, check=False), "no secure connection")
    keys = f"client_cert={files['client.pem']},client_key={files['client.key']}"
    assert open(mount_web(web_instance, url, authority, keys) / "file", "rb").read() == b"in secret"


@pytest.mark.limit(60)
def test_a_redirect_takes_no_login_along(make_web, web_instance, folder, stack):
    users = os.path.join(folder, "users")
    write_file(users, b"me:{PLAIN}s3cret\n")
    os.chmod(users, 0o644)
    os.makedirs(os.path.join(folder, "elsewhere"))
    other = WebServer("nginx-json", os.path.join(folder, "elsewhere"))
    stack.callback(other.stop)
    web = make_web(
        "nginx-json",
        server=f"""auth_basic "x"; auth_basic_user_file {users};
            location /far {{ return 302 {other.url}there; }} location /near {{ return 307 /file; }}
            location /circle {{ return 308 /circle; }}""",
    )
    data = random_bytes(1, 3_000_000)
    for name in ("far", "near", "circle"):
        write_file(os.path.join(web.root, name), b"what the listing tells of")
    write_file(os.path.join(other.root, "there"), data)
    write_file(os.path.join(web.root, "file"), data[::-1])
    age(web.root)
    age(other.root)
    section(web_instance, "right", web.url, username="me", password="s3cret")
    mount = mount_web(web_instance, "right")
    assert open(mount / "far", "rb").read() == data
    assert open(mount / "near", "rb").read() == data[::-1]
    with pytest.raises(OSError):
        open(mount / "circle", "rb").read()
    assert logins(web) == {"me"} and logins(other) == {"-"}


def logins(web):
    """The users that nginx saw, `-` where there was none."""
    with open(os.path.join(web.work, "access.log")) as file:
        return {line.split()[2] for line in file}


@pytest.mark.limit(60)
def test_a_redirect_takes_no_client_certificate_along(make_web, web_instance, folder):
    os.makedirs(os.path.join(folder, "tls"))
    files = make_certificates(os.path.join(folder, "tls"))

    def make(name, words):
        """A server that asks for a certificate, and the log of its requests that came with one."""
        work = os.path.join(folder, name, "web")
        shown = os.path.join(work, "shown.log")
        web = make_web(
            "nginx-json", os.path.join(folder, name), listen="ssl",
            server=f"""ssl_certificate {files["server.pem"]}; ssl_certificate_key {files["server.key"]};
                ssl_client_certificate {files["ca.pem"]}; {words}
                access_log {shown} combined if=$ssl_client_s_dn; access_log {work}/access.log;""",
        )
        web.url = web.url.replace("http:", "https:")
        return web, shown

    other, shown_to_other = make("elsewhere", "ssl_verify_client optional;")
    web, shown = make("here", f"ssl_verify_client on; location /far {{ return 302 {other.url}there; }}")
    data = random_bytes(1, 3_000_000)
    write_file(os.path.join(web.root, "far"), b"what the listing tells of")
    write_file(os.path.join(other.root, "there"), data)
    age(web.root)
    age(other.root)
    options = f"ca_file={files['ca.pem']},client_cert={files['client.pem']},client_key={files['client.key']}"
    assert open(mount_web(web_instance, web.url, options) / "far", "rb").read() == data
    # nginx notes a request when it has answered it, and writes this log last.
    wait_until(lambda: "/there" in other.requests("GET"), 10)
    assert "GET /far " in open(shown).read() and open(shown_to_other).read() == ""
    # Who mounts the other server shows it the certificate.
    assert open(mount_web(web_instance, other.url, options) / "there", "rb").read() == data
    wait_until(lambda: "GET /there " in open(shown_to_other).read(), 10)


@pytest.mark.limit(60)
def test_a_file_with_a_weak_tag_is_read_in_one_answer(make_web, web_instance):
    web = make_web("nginx-weak")
    path = os.path.join(web.root, "file")
    write_file(path, content(1, 400))
    age(web.root)
    mount = mount_web(web_instance, web.url)
    with open(mount / "file", "rb", buffering=0) as file:
        assert version_of(file.read(PAGE), 0) == 1
        write_file(path + ".new", content(2, 400))
        os.chmod(path + ".new", 0o644)
        os.rename(path + ".new", path)
        for page in (399, 17, 200):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            assert version_of(os.pread(file.fileno(), PAGE, page * PAGE), page) == 1
    assert web.requests("GET").count("/file") == 1


@pytest.mark.limit(60)
def test_a_proxy_for_https(make_web, web_instance, folder, stack):
    os.makedirs(os.path.join(folder, "tls"))
    files = make_certificates(os.path.join(folder, "tls"))
    tls = f'ssl_certificate {files["server.pem"]}; ssl_certificate_key {files["server.key"]};'
    web = make_web("nginx-json", listen="ssl", server=tls)
    write_file(os.path.join(web.root, "file"), b"by a proxy")
    age(web.root)
    proxy = WebProxy("me", "s3cret")
    stack.callback(proxy.stop)
    url = web.url.replace("http:", "https:")
    authority = f"ca_file={files['ca.pem']}"
    wrong = {"https_proxy": f"http://me:s3cret-not@{proxy.address}"}
    assert mount_web(web_instance, url, authority, check=False, env=wrong).returncode == 1
    right = {"https_proxy": f"http://me:s3cret@{proxy.address}"}
    assert open(mount_web(web_instance, url, authority, env=right) / "file", "rb").read() == b"by a proxy"
    assert ("CONNECT", web.address) in proxy.requests


@pytest.mark.limit(60)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_another_login_is_named_for_buckets_too(make_instance, stack, scheme):
    proxy = WebProxy("me", "s3cret")
    stack.callback(proxy.stop)
    instance = make_instance(f"{scheme}://bucket.test")
    instance.environment[f"{scheme}_proxy"] = f"http://me:wrong@{proxy.address}"
    failed = instance.run("list", "s3://bucket", "-o", f"endpoint={scheme}://bucket.test", check=False)
    assert failed.returncode == 1 and "the proxy wants a login" in failed.stderr, failed.stderr
    assert "wrong" not in failed.stderr


@pytest.mark.limit(60)
def test_a_proxy_for_plain_http(make_web, web_instance, stack):
    web = make_web("apache-dav")
    write_file(os.path.join(web.root, "file"), b"by a proxy")
    write_file(os.path.join(web.root, "other"), b"directly")
    age(web.root)
    proxy = WebProxy("me", "s3cret")
    stack.callback(proxy.stop)
    one_line(mount_web(web_instance, web.url, check=False, env={"http_proxy": f"http://{proxy.address}"}), "proxy")
    past = {"http_proxy": f"http://{proxy.address}", "no_proxy": "localhost,127.0.0.1"}
    with_no_proxy = mount_web(web_instance, web.url, env=past)
    assert open(with_no_proxy / "other", "rb").read() == b"directly" and not proxy.requests
    with_no_proxy.unmount()
    mount = mount_web(web_instance, web.url, env={"http_proxy": f"http://me:s3cret@{proxy.address}"})
    assert open(mount / "file", "rb").read() == b"by a proxy"
    assert ("GET", web.url + "file") in proxy.requests


@pytest.mark.parametrize("kind", ["nginx-json", "apache-dav"])
def test_a_web_server_that_swallows_everything_does_not_hang_ls(kind, make_web, make_proxy, web_instance):
    """What is asked waits 10 s for an answer at most; then the server counts as away, and nothing waits any more."""
    web = make_web(kind)
    os.makedirs(os.path.join(web.root, "folder/more"))
    proxy = make_proxy(web.address)
    mount = mount_web(web_instance, f"{proxy.url}/", "stall_timeout=5s")
    assert os.listdir(mount.path) == ["folder"]
    proxy.mode("blackhole")
    assert "Input/output error" in run(["ls", mount / "folder"], timeout=25, check=False).stderr
    assert "Input/output error" in run(["ls", mount / "folder"], timeout=7, check=False).stderr
