# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Keys that no file system can show, and keys that only look as if: none fails a readdir, none leads out of the mount."""

import errno
import json
import os
import stat

import pytest

from harness.hostile_bucket import HostileBucket
from harness.processes import command_line, wait_until

LONG = b"n" * 255
COMPOSED, DECOMPOSED = "caf\u00e9".encode(), "cafe\u0301".encode()

# What is shown: every path, and what it reads as; nil for a folder.
SHOWN = {
    b"plain": b"1",
    b"Plain": b"case matters",
    COMPOSED: b"composed",
    DECOMPOSED: b"decomposed",
    b"new\nline": b"control",
    b"\x01\x7f\x1b[31m": b"controls",
    b" leading and trailing ": b"spaces",
    b"%2e%2e": b"looks escaped",
    b"back\\slash": b"backslash",
    b"...": b"three dots",
    b"-rf": b"option",
    b"\xff\xfe": b"not UTF-8",
    b"\xfc/x": b"in a folder that is not UTF-8",
    b"\xfc/\xfd/y": b"in one that is in such a one",
    LONG: b"longest name",
    b"dir/" + LONG: b"longest name in a folder",
    b"deep/" + b"/".join([b"d" * 100] * 9) + b"/end": b"deep",
    b"/".join([b"k" * 255] * 3 + [b"l" * 200, b"m" * 55]): b"the longest key there is",
    b"/".join([b"\xc3\xbc" * 127] * 3 + [b"l" * 200, b"m" * 58]): b"the longest key there is, most of it escaped",
    b"both/inside": b"a folder and a file",
    b"filled/inside": b"a folder with content",
    b"double/ok": b"2",
    b"dots/ok": b"3",
}
# What is not shown, by the folder that it would be in.
HIDDEN = {
    b"": [b"/leading", b"//", b".", b"..", b"../escape", b"./here", b"n" * 256, b"both", b"nul\0name"],
    b"double/": [b"double//x", b"double//y/z"],
    b"dots/": [b"dots/.", b"dots/..", b"dots/../up", b"dots/./here"],
    b"dir/": [b"dir/" + b"m" * 256, b"dir/" + b"m" * 300 + b"/below"],
    b"filled/": [b"filled/"],
}
# Several keys that begin with the same folder are one name in a listing.
COUNTED = {b"": 8, b"double/": 1, b"dots/": 4, b"dir/": 2, b"filled/": 1}


def everything():
    hidden = {key: b"hidden" for keys in HIDDEN.values() for key in keys}
    assert not set(hidden) & set(SHOWN)
    return SHOWN | hidden


def walk(path):
    """Every file below a folder by its path, with its content; each name is looked at."""
    found = {}
    for folder, names, files in os.walk(path, onerror=lambda error: (_ for _ in ()).throw(error)):
        for name in names + files:
            assert name not in (b".", b"..") and b"/" not in name and len(name) <= 255
            os.lstat(os.path.join(folder, name))
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), path)] = file.read()
    return found


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_what_can_be_shown_is_and_the_rest_is_counted(make_instance, stack, page):
    bucket = HostileBucket(everything(), page)
    stack.callback(bucket.stop)
    instance = make_instance(bucket.url)
    mount = instance.mount("s3://bucket", None, "ro")
    assert set(os.listdir(os.fsencode(mount.path))) == {path.partition(b"/")[0] for path in SHOWN}
    # Names flow while pages come: an object may be given before the page that has the folder of its name, and the
    # kernel keeps it for a moment.
    wait_until(lambda: os.path.isdir(mount / "both"))
    for _ in range(2):
        assert walk(os.fsencode(mount.path)) == SHOWN
    assert stat.S_ISDIR(os.stat(mount / "both").st_mode)
    counted = sum(COUNTED.values())
    lines = [line for line in instance.run("doctor", check=False).stdout.splitlines() if "cannot be shown" in line]
    told = json.loads(instance.run("doctor", "--json", check=False).stdout)["findings"]
    assert [f"{finding['verdict']:6}{finding['text']}" for finding in told if "cannot be shown" in finding["text"]] == lines
    assert len(lines) == 1 and f"{counted} objects" in lines[0], lines
    assert command_line(mount.pid)


def test_a_folder_with_what_is_not_shown_stays(make_instance, stack):
    """Without this it would come back after each removal."""
    bucket = HostileBucket(everything())
    stack.callback(bucket.stop)
    instance = make_instance(bucket.url)
    mount = instance.mount("s3://bucket")
    os.unlink(mount / "double/ok")
    with pytest.raises(OSError) as error:
        os.rmdir(mount / "double")
    assert error.value.errno == errno.ENOTEMPTY
    instance.run("flush")
    assert b"double//x" in bucket.objects and b"double/ok" not in bucket.objects
