# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The names of files survive the loss of power: all or none of a change, and none that was synced is lost."""

import hashlib
import os
import random

import pytest

from harness.disks import LoopDisk, loop_disk_needs
from harness.linking import LinkLedger
from harness.processes import wait_until
from harness.reboot import Machine, is_reached, objects, tags
from harness.settings import scaled

KINDS = ("ext4", "xfs")


@pytest.mark.limit(7200)
@pytest.mark.skipif(loop_disk_needs(*KINDS) is not None, reason=str(loop_disk_needs(*KINDS)))
@pytest.mark.parametrize("kind", KINDS)
def test_names_survive_power_loss(kind, proxy, make_instance, folder, stack, seed, client):
    """Cuts at random moments, with the network and without."""
    machine = Machine(make_instance(proxy.url, "instance"), LoopDisk(folder, 512 << 20, kind), stack)
    instance, generator, ledger, known = machine.instance, random.Random(seed), LinkLedger(seed), {}
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    was_dirty = False
    for _ in range(scaled(3)):
        if generator.random() < 0.5:
            proxy.offline()
        ledger.work(mount.path, machine.disk.cut_power, generator.randrange(20, 200), generator.random() * 0.05)
        remote = tags(client)
        was_dirty |= any(
            remote.get(name) not in [hashlib.md5(content).hexdigest() for content in ledger.contents[file]]
            for name, file in ledger.names[0].items()
        )
        mount = machine.start_again(mount)
        proxy.online()
        wait_until(lambda: is_reached(mount), 30, "the mount to reach the remote")
        contents = ledger.check(mount.path)
        instance.flush()
        assert objects(client, known) == contents and ledger.check(mount.path) == contents
        assert instance.conflicts() == 0
    assert was_dirty, "nothing was dirty at any cut: the test proves nothing"
