# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Programs that others wrote, against `moorage serve`: rclone, curl, s3fs."""

import os
import random
import shutil
import subprocess
import time

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY, clean_environment
from harness.processes import run
from harness.s3_calls import keys

MIB = 1 << 20


def rclone(server, folder, *arguments, check=True):
    program = shutil.which("rclone", path=f"{os.path.dirname(os.sys.executable)}:{os.environ['PATH']}")
    config = os.path.join(folder, "rclone.conf")
    with open(config, "w") as file:
        file.write(
            "[s]\ntype = s3\nprovider = Other\nenv_auth = false\nregion = us-east-1\n"
            f"access_key_id = {ACCESS_KEY}\nsecret_access_key = {SECRET_KEY}\nendpoint = {server.url}\n"
        )
    return run([program, "--config", config, *arguments], timeout=120, check=check, env=clean_environment())


def test_rclone_copies_and_checks(server, folder, seed):
    source = os.path.join(folder, "source")
    chooser = random.Random(seed)
    for number in range(200):
        path = os.path.join(source, f"d{number % 7}", f"e {number % 3}", f"f{number}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(chooser.randbytes(chooser.choice([0, 1, 4096, 70_000])))
    with open(os.path.join(source, "big"), "wb") as file:
        file.write(chooser.randbytes(23 * MIB + 7))
    options = ["--s3-upload-cutoff", "8M", "--s3-chunk-size", "5M"]
    rclone(server, folder, "copy", *options, source, "s:bucket/tree")
    rclone(server, folder, "check", "--download", source, "s:bucket/tree")
    assert "0 differences" in rclone(server, folder, "check", source, "s:bucket/tree").stderr
    assert subprocess.run(["diff", "-r", source, os.path.join(server.root, "bucket", "tree")]).returncode == 0
    before = server.body_bytes()
    rclone(server, folder, "sync", *options, source, "s:bucket/tree")
    assert server.body_bytes() == before
    rclone(server, folder, "purge", "s:bucket/tree")
    assert os.listdir(os.path.join(server.root, "bucket")) == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_signs_and_expects(server, folder):
    path = os.path.join(folder, "file")
    with open(path, "wb") as file:
        file.write(os.urandom(3 * MIB))
    signed = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS_KEY}:{SECRET_KEY}"]
    unsigned = ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    command = ["curl", "-sS", "--fail", *signed, *unsigned]
    run([*command, "-H", "Expect: 100-continue", "-T", path, f"{server.url}/bucket/key"])
    copy = os.path.join(folder, "copy")
    run([*command, "-o", copy, f"{server.url}/bucket/key"])
    assert open(path, "rb").read() == open(copy, "rb").read()


def needs(program):
    missing = shutil.which(program) is None or not os.access("/dev/fuse", os.R_OK | os.W_OK)
    return pytest.mark.skipif(missing, reason=f"{program} or /dev/fuse is missing")


def work_in(mountpoint, folder, seed):
    """What a user does in a mounted bucket."""
    source = os.path.join(folder, "source")
    with open(source, "wb") as file:
        file.write(random.Random(seed).randbytes(25 * MIB))
    script = f"""
        cd {mountpoint}
        mkdir d; echo hello > d/a; cp {source} big; mv d/a d/b; cmp {source} big
        mv d e; test "$(cat e/b)" = hello; rm big; echo again > e/c; ls e
    """
    assert run(["bash", "-euc", script], timeout=100).stdout.split() == ["b", "c"]


def unmounted(mountpoint):
    return lambda: subprocess.run(["fusermount3", "-uz", mountpoint], stderr=subprocess.DEVNULL)


@needs("s3fs")
def test_s3fs_mounts(server, folder, stack, seed):
    mountpoint, password = os.path.join(folder, "mnt"), os.path.join(folder, "password")
    os.mkdir(mountpoint)
    with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    options = f"url={server.url},use_path_request_style,passwd_file={password},multipart_size=10"
    run(["s3fs", "bucket", mountpoint, "-o", options])
    stack.callback(unmounted(mountpoint))
    work_in(mountpoint, folder, seed)
    assert sorted(keys(server.client())) == ["e/", "e/b", "e/c"]


@needs("fusermount3")
def test_rclone_mounts(server, folder, stack, seed):
    mountpoint = os.path.join(folder, "mnt")
    os.mkdir(mountpoint)
    cache = os.path.join(folder, "cache")
    rclone(server, folder, "mount", "s:bucket", mountpoint, "--daemon", "--vfs-cache-mode", "writes", "--vfs-write-back", "0", "--cache-dir", cache)
    stack.callback(unmounted(mountpoint))
    work_in(mountpoint, folder, seed)
    run(["fusermount3", "-u", mountpoint])
    deadline = time.monotonic() + 30
    while sorted(keys(server.client())) != ["e/b", "e/c"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert sorted(keys(server.client())) == ["e/b", "e/c"]
