# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What fio wrote through a mount is what it reads back: from the remote, from the disk cache and from the page cache."""

import os
import random
import re

import pytest

from harness.processes import Failure, run
from harness.trees import all_keys, random_bytes

KIB = 1 << 10
MIB = 1 << 20
ONE = 12 * MIB
EACH_OF_SIXTEEN = 1 * MIB
SIXTEEN = ["--filename_format=job$jobnum", f"--size={EACH_OF_SIXTEEN}", "--numjobs=16"]
SINGLE = ["--filename=one", f"--size={ONE}"]

#: Each block carries a checksum and its offset, so that a block of elsewhere is seen too.
CHECKSUMS = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"]
VERIFY = [*CHECKSUMS, "--verify_interval=4k"]

#: Name of the job: how it reads what was written. Random ones read every block once.
JOBS = {
    "sequential": [*SINGLE, "--rw=read", "--bs=128k"],
    "random": [*SINGLE, "--rw=randread", "--bs=4k"],
    "mmap": [*SINGLE, "--rw=randread", "--bs=16k", "--ioengine=mmap"],
    "direct": [*SINGLE, "--rw=randread", "--bs=64k", "--ioengine=libaio", "--iodepth=16", "--direct=1"],
    "sixteen": [*SIXTEEN, "--rw=randread", "--bs=32k"],
}


def fio(mount, name, *words, timeout=60):
    folder = os.path.join(os.path.dirname(mount.instance.folder), "fio")
    os.makedirs(folder, exist_ok=True)
    command = ["fio", f"--name={name}", f"--directory={mount.path}", "--thread", "--group_reporting", *VERIFY]
    return run([*command, *words], timeout=timeout, cwd=folder)


@pytest.fixture
def written(instance, server):
    """A mount whose files fio wrote, all of them at the remote and nothing of them in any cache."""
    mount = instance.mount("s3://bucket")
    for name, words in [("one", SINGLE), ("sixteen", SIXTEEN)]:
        fio(mount, name, *words, "--rw=write", "--bs=64k", "--do_verify=0")
    instance.flush()
    mount.unmount()
    instance.drop_contents()
    return mount


@pytest.mark.limit(240)
def test_fio_finds_every_block_as_it_wrote_it(instance, server, client, written, seed):
    for name in JOBS:
        mount = written.mount_again()
        before = server.stats()["body_bytes_sent"].get("GET", 0)
        fio(mount, name, *JOBS[name])
        fetched = server.stats()["body_bytes_sent"]["GET"] - before
        # Nothing was left of it here.
        assert fetched >= ONE, name
        mount.unmount()
        mount = written.mount_again()
        before = server.stats()["body_bytes_sent"]["GET"]
        fio(mount, name, *JOBS[name])
        fio(mount, name, *JOBS[name], "--invalidate=0")
        # Listings at most.
        assert server.stats()["body_bytes_sent"]["GET"] - before < MIB, name
        mount.unmount()
        instance.drop_contents()
    # The judge judges: of one wrong byte at the remote it complains.
    data = bytearray(client.get_object(Bucket="bucket", Key="one")["Body"].read())
    data[random.Random(seed).randrange(len(data)) | 0xFFF] ^= 1
    client.put_object(Bucket="bucket", Key="one", Body=bytes(data))
    with pytest.raises(Failure, match="verify failed"):
        fio(written.mount_again(), "random", *JOBS["random"])


#: Name of the job: how it writes what it verifies. With block sizes that nothing is a multiple of, each block has one
#: checksum over all of it.
WRITERS = {
    "sequential": ["--filename=sequential", "--size=4m", "--rw=write", "--bs=128k"],
    "random": ["--filename=random", "--size=3m", "--rw=randwrite", "--bs=4k"],
    "backward": ["--filename=backward", "--size=3060k", "--rw=write:-24k", "--bs=12k"],
    "unaligned": ["--filename=unaligned", "--size=3m", "--rw=randwrite", "--bs=3333", "--offset=777"],
    "odd sizes": ["--filename=odd", "--size=3m", "--rw=randwrite", "--bsrange=512-70001", "--bs_unaligned"],
    "small files": ["--filename_format=small.$filenum", "--nrfiles=150", "--filesize=1k-20k", "--openfiles=16",
                    "--rw=randwrite", "--bs=1k"],
    "mmap": ["--filename=mmap", "--size=4m", "--rw=randwrite", "--bs=16k", "--ioengine=mmap"],
    "direct": ["--filename=direct", "--size=4m", "--rw=randwrite", "--bs=64k", "--ioengine=libaio", "--iodepth=8",
               "--direct=1"],
    "sixteen": ["--filename_format=sixteen.$jobnum", "--size=256k", "--numjobs=16", "--rw=randwrite", "--bs=8k",
                "--fsync=16"],
}


def writers(mount, *words, check=True):
    """All of them at once."""
    command = ["fio", f"--directory={mount.path}", "--thread", "--group_reporting", *CHECKSUMS, *words]
    for name, job in WRITERS.items():
        command += [f"--name={name}", *job]
    return run(command, timeout=100, cwd=os.path.dirname(mount.instance.folder), check=check)


@pytest.mark.limit(240)
def test_fio_finds_what_each_way_of_writing_wrote(instance, server, client, seed):
    mount = instance.mount("s3://bucket")
    writers(mount, "--do_verify=0")
    writers(mount, "--verify_only")
    instance.flush()
    mount.unmount()
    instance.drop_contents()
    sizes = all_keys(client, "bucket")
    mount = mount.mount_again()
    before = server.stats()["body_bytes_sent"].get("GET", 0)
    writers(mount, "--verify_only")
    writers(mount, "--verify_only")
    fetched = server.stats()["body_bytes_sent"]["GET"] - before
    # Each byte once, in whole blocks, and listings.
    assert len(sizes) > 150 and 0.8 * sum(sizes.values()) < fetched < 1.2 * sum(sizes.values())
    # They judge: of one wrong byte in a file they complain.
    wrong = ("sequential", "backward", "unaligned", "odd", "mmap")
    for key in wrong:
        data = bytearray(client.get_object(Bucket="bucket", Key=key)["Body"].read())
        # Of blocks of odd sizes that overlap fio verifies the last that it wrote: not every byte.
        for position in random.Random(seed).sample(range(100_000, 2_900_000), 16 if key == "odd" else 1):
            data[position] ^= 1
        client.put_object(Bucket="bucket", Key=key, Body=bytes(data))
    mount.unmount()
    instance.drop_contents()
    result = writers(mount.mount_again(), "--verify_only", check=False)
    assert result.returncode != 0
    assert set(re.findall(r"verify.* file \S*/([\w.]+)", result.stderr)) == set(wrong), result.stderr


def fetched_for_each(server, path, offsets):
    """Reads 4 KiB at each offset, past what the kernel would read ahead; requests and bytes for each, on average."""
    before = server.stats()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        pieces = [os.pread(descriptor, 4 * KIB, offset) for offset in offsets]
    finally:
        os.close(descriptor)
    after = server.stats()
    count = len(offsets)
    # The question for the numbers is one of them.
    requests = sum(after["requests"].values()) - sum(before["requests"].values()) - 1
    sent = after["body_bytes_sent"].get("GET", 0) - before["body_bytes_sent"].get("GET", 0)
    return pieces, requests / count, sent / count


@pytest.mark.parametrize("size", [128 * MIB, 60 * MIB + 12_345], ids=["128 MiB", "odd"])
def test_a_random_read_costs_one_request_and_one_block(instance, server, client, seed, size):
    data = random_bytes(seed, size)
    client.put_object(Bucket="bucket", Key="file", Body=data)
    mount = instance.mount("s3://bucket", None, "metadata_age=600s")
    os.stat(mount / "file")
    generator = random.Random(seed)
    # Neither twice the same block, which would cost less, nor neighbours, which by chance look like reading on.
    cells = generator.sample(range(size // (512 * KIB)), 100)
    offsets = [cell * 512 * KIB + generator.randrange(64) * 4 * KIB for cell in cells]
    pieces, requests, sent = fetched_for_each(server, mount / "file", offsets)
    assert pieces == [data[offset:offset + 4 * KIB] for offset in offsets]
    print(f"for each of {len(offsets)}: {requests:.2f} requests, {sent / KIB:.1f} KiB")
    # As is its answer.
    assert requests == 1 and sent < 32.1 * KIB


def test_the_kernel_reads_ahead_as_much_as_it_was_told(instance):
    """What is set before the kernel and the mount agree on their terms is lost."""
    mount = instance.mount("s3://bucket")
    device = os.stat(mount.path).st_dev
    with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb") as file:
        assert int(file.read()) == 256
