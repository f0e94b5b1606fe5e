# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""SIGKILL of the server: uploads resume after its restart."""

import pytest

from harness.processes import wait_until
from harness.trees import sha256_of_object, write_random_file

MIB = 1 << 20
SIZE = 96 * MIB


@pytest.mark.limit(150)
@pytest.mark.parametrize("protocol", ["s3-multipart", "ietf-resumable"])
def test_an_upload_resumes_after_the_server_was_killed(server, proxy, instance, seed, protocol):
    instance.configure(upload_protocol=protocol, part_size="5M")
    mount = instance.mount("s3://bucket")
    proxy.zero()
    proxy.limit(up=32 * MIB)
    digest = write_random_file(mount / "big", SIZE, seed)
    for share in (0.3, 0.6):
        wait_until(lambda: proxy.body_bytes() > SIZE * share, 60, f"{share} of the upload")
        # It does not come to its end while it is looked at.
        proxy.limit(up=2 * MIB)
        assert instance.in_flight(), "nothing was in flight at the kill"
        server.kill()
        with pytest.raises(Exception):
            server.client().list_buckets()
        server.restart()
        proxy.limit(up=32 * MIB)
    instance.flush()
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    # All parts in flight, or what was in the sockets: 10 MiB by the kernel's limits (tcp(7)) where the server lags.
    loss = 4 * 5 * MIB if protocol == "s3-multipart" else 12 * MIB
    beyond = proxy.body_bytes() - SIZE
    print(f"{beyond} bytes beyond the size")
    assert 0 <= beyond <= 2 * loss + (64 << 10)
    assert instance.conflicts() == 0
    assert server.client().list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


@pytest.mark.limit(120)
def test_small_files_arrive_after_the_server_was_killed(server, proxy, instance, client):
    mount = instance.mount("s3://bucket")
    held = proxy.rule("hold", method="PUT", times="all")
    for number in range(50):
        with open(mount / f"f{number:02}", "w") as file:
            file.write(f"content {number}")
    held.wait()
    assert instance.pending_files() >= 50
    server.kill()
    held.remove()
    server.restart()
    instance.flush()
    for number in range(50):
        assert client.get_object(Bucket="bucket", Key=f"f{number:02}")["Body"].read() == f"content {number}".encode()
