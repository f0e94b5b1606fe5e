# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Secrets, signed queries and the URLs of uploads stand in no log, command line, status or cache."""

import os
import random
import signal

import pytest

from harness.bucket import SECRET_KEY
from harness.processes import kill, wait_until


def command_lines(instance):
    found = b""
    for pid in instance.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += file.read()
        except OSError:
            pass
    return found


def contents(folder):
    found = b""
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found += file.read()
    return found


@pytest.mark.parametrize("protocol", ["s3-multipart", "ietf-resumable"])
def test_secrets_show_nowhere(instance, client, seed, protocol):
    instance.configure(upload_protocol=protocol)
    mount = instance.mount("s3://bucket")
    data = random.Random(seed).randbytes(12 << 20)
    with open(mount / "f", "wb") as file:
        file.write(data)
    seen = command_lines(instance)
    assert b"mount" in seen, "no process of the instance was found"
    said = []
    wait_until(lambda: instance.uploads() == [] or instance.in_flight(), 20, "the upload's beginning")
    for words in (["status", "--json"], ["uploads", "list", "--json"], ["uploads", "why", "--all"], ["status"]):
        result = instance.run(*words, check=False)
        said.append(result.stdout + result.stderr)
    instance.flush()
    mount.unmount()
    logs = contents(instance.directory("run"))
    assert logs, "there are no logs to look at"
    places = {
        "command lines": seen + command_lines(instance), "answers": "".join(said).encode(), "logs": logs,
        "cache": contents(instance.directory("cache")),
        "state": contents(instance.directory("state")),
    }
    for place, text in places.items():
        assert SECRET_KEY.encode() not in text, f"the secret key is in the {place}"
        assert b"X-Amz-Signature" not in text and b"Signature=" not in text, f"a signature is in the {place}"
        # The journal must know where an upload goes on.
        if place != "state":
            assert b"/_moorage/uploads/" not in text, f"the URL of an upload is in the {place}"
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() == data


@pytest.mark.parametrize("server_of", ["mount", "flusher"])
def test_a_crash_is_the_end_and_tells_no_registers(instance, server_of):
    mount = instance.mount("s3://bucket")
    flusher = instance.running_flusher()
    kill(mount.pid if server_of == "mount" else flusher, signal.SIGSEGV)
    logs = contents(instance.directory("run"))
    assert b"ready" in logs
    assert b"rsp 0x" not in logs and b"Registers" not in logs
