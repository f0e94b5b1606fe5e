# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""10,000 small files arrive, and rsync finds nothing to do afterwards, also after the cache is gone."""

import os

import pytest

from harness.processes import run, shell
from harness.settings import scaled
from harness.trees import all_keys, fingerprint, make_tree


def assert_rsync_idle(source, target):
    """A second rsync -a transfers nothing: neither content nor attributes differ."""
    result = run(["rsync", "-a", "--itemize-changes", "--stats", source + "/", target + "/"], timeout=400)
    changes = [line for line in result.stdout.splitlines() if line[:1] in "<>ch.*" and len(line) > 12 and line[11] == " "]
    assert changes == [], changes[:20]
    assert "Number of regular files transferred: 0" in result.stdout, result.stdout


@pytest.mark.limit(900)
def test_ten_thousand_small_files(server, make_instance, client, local, seed):
    instance = make_instance(server.url)
    count = scaled(10_000)
    contents = make_tree(local, count, 4096, seed)
    mount = instance.mount("s3://bucket")
    shell(f"cp -r {local} {mount / 'tree'}", timeout=400)
    instance.flush(timeout=400)
    keys = all_keys(client, "bucket", "tree/")
    files = {key.removeprefix("tree/"): size for key, size in keys.items() if not key.endswith("/")}
    assert set(files) == set(contents)
    served = os.path.join(server.root, "bucket", "tree")
    for name, content in contents.items():
        with open(os.path.join(served, name), "rb") as file:
            assert file.read() == content, name
    assert instance.conflicts() == 0


@pytest.mark.limit(900)
def test_a_second_rsync_transfers_nothing(server, make_instance, client, local, seed):
    instance = make_instance(server.url)
    make_tree(local, scaled(10_000), 4096, seed)
    shell("chmod 640 d000/f00001; chmod 755 d000/f00002; touch -d 2001-02-03T04:05:06 d000/f00003; chmod 750 d001", local)
    os.symlink("d000/f00001", os.path.join(local, "link"))
    mount = instance.mount("s3://bucket")
    run(["rsync", "-a", local + "/", mount / "tree/"], timeout=400)
    assert_rsync_idle(local, mount / "tree")
    instance.flush(timeout=400)
    before, sent = client.head_object(Bucket="bucket", Key="tree/d000/f00000")["LastModified"], server.body_bytes()
    assert_rsync_idle(local, mount / "tree")
    mount.unmount()
    mount = mount.mount_again()
    assert_rsync_idle(local, mount / "tree")
    mount.unmount()
    assert instance.pending_files() == 0
    instance.drop_cache()
    mount = mount.mount_again()
    assert_rsync_idle(local, mount / "tree")
    assert instance.pending_files() == 0
    assert client.head_object(Bucket="bucket", Key="tree/d000/f00000")["LastModified"] == before
    assert server.body_bytes() == sent
    assert sorted(os.listdir(mount / "tree")) == sorted(os.listdir(local))
    for folder in ("d000", "d001"):
        assert fingerprint(mount / f"tree/{folder}", attributes=True) == fingerprint(f"{local}/{folder}", attributes=True)


@pytest.mark.limit(180)
@pytest.mark.parametrize("inplace", [False, True])
def test_rsync_leaves_no_temporary_name_at_the_remote(proxy, make_instance, client, local, seed, inplace):
    instance = make_instance(proxy.url)
    instance.configure(quiet_period="2s")  # the default
    make_tree(local, 50, 20_000, seed)
    mount = instance.mount("s3://bucket")
    flags = ["--inplace"] if inplace else []
    run(["rsync", "-a", *flags, local + "/", mount / "tree/"], timeout=60)
    with open(os.path.join(local, "d000/f00007"), "r+b") as file:
        file.seek(10_000)
        file.write(b"changed")
    run(["rsync", "-a", "--checksum", *flags, local + "/", mount / "tree/"], timeout=60)
    instance.flush()
    assert fingerprint(mount / "tree") == fingerprint(local)
    touched = {record["path"] for record in proxy.requests() if record["method"] in ("PUT", "POST", "DELETE")}
    assert not [path for path in touched if "/." in path and ".moorage-probe" not in path], "rsync's temporary names went to the remote"
    names = {key for key in all_keys(client, "bucket", "tree/") if not key.endswith("/")}
    assert len(names) == 50
