# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A network that goes away in every way there is: uploads wait, say so once, and go on where they were."""

import os
import re
import signal
import subprocess
import time
from datetime import datetime, timedelta

import pytest

from harness.network import missing
from harness.following import Lines
from harness.own_files import give_own_files
from harness.processes import run, wait_until
from harness.trees import sha256_of_object, write_file, write_random_file

MIB = 1 << 20
# What Docs/BackgroundTransfers.md says of attempts while a remote is away: each request under way once, probes that
# grow apart, each of which is tried twice.
REQUESTS = 8
PROBES_OF_FIRST_MINUTE = 8
PROBES_OF_A_LATER_MINUTE = 4

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


class Cut:
    """A way to cut the network off, and back."""

    def __init__(self, cut, restore, name=None):
        self.cut = cut
        self.restore = restore
        # How the remote is addressed; None: by number.
        self.name = name


def filtered(rule):
    return Cut(lambda network, server: network.nft([rule]), lambda network, server: network.nft([]))


def own_link_back(network, server):
    network.ip("machine", "link", "set", "cable", "up")
    network.ip("machine", "address", "replace", "fd77::1/64", "dev", "cable", "nodad")
    network.route()


def unroute(network, server):
    network.ip("machine", "route", "add", "unreachable", f"{network.ADDRESS}/32")
    network.run("machine", "ss", "-K", "dst", network.ADDRESS)


def kill_connections(network, server):
    """All that there are, again and again: none gets anywhere."""
    network.nft(["ip daddr 10.77.0.2 tcp flags syn drop"])
    network.run("machine", "ss", "-K", "dst", network.ADDRESS)


CUTS = {
    "drop": filtered("ip daddr 10.77.0.2 drop"),
    "reset": filtered("ip daddr 10.77.0.2 meta l4proto tcp reject with tcp reset"),
    "prohibited": filtered("ip daddr 10.77.0.2 reject with icmpx admin-prohibited"),
    "own-link": Cut(lambda network, server: network.ip("machine", "link", "set", "cable", "down"), own_link_back),
    "no-carrier": Cut(
        lambda network, server: network.ip("server", "link", "set", "cable", "down"),
        lambda network, server: network.ip("server", "link", "set", "cable", "up"),
    ),
    "unreachable": Cut(
        unroute, lambda network, server: network.ip("machine", "route", "del", "unreachable", f"{network.ADDRESS}/32")
    ),
    "killed": Cut(kill_connections, lambda network, server: network.nft([])),
    "refused": Cut(lambda network, server: server.kill(), lambda network, server: server.restart()),
}


class Attempts:
    """Counts how often the flusher connects somewhere."""

    def __init__(self, instance, folder, stack):
        pid = instance.running_flusher()
        self.path = os.path.join(folder, f"connects-{time.monotonic_ns()}")
        command = ["strace", "-f", "-q", "-ttt", "-e", "trace=connect", "-e", "signal=none", "-o", self.path, "-p", str(pid)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        stack.callback(self.stop)
        wait_until(lambda: os.path.exists(self.path), 10, "strace")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(10)

    def count(self, port):
        return len(self.times(port))

    def times(self, port):
        """When they were, in seconds since 1970."""
        with open(self.path) as file:
            # "PID TIME connect(...)"
            return [float(line.split()[1]) for line in file if f"htons({port})" in line]


def events(instance, start=0):
    """What the flusher's log says to everybody of the way to the remote."""
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        text = file.read()[start:]
    return [line for line in text.splitlines() if re.search(r"uploads (wait|are held|go on)|answers again", line)]


def log_size(instance):
    return os.path.getsize(os.path.join(instance.directory("run"), "flusher.log"))


def expect_offline(instance, timeout):
    def look():
        [upload] = instance.uploads()
        reasons = {item["reason"] for item in upload["waiting"]} - {"backoff", "quiet"}
        assert upload["state"] != "attention" and upload["attempts"] == 0, upload
        return upload if upload["state"] == "waiting" and reasons == {"offline"} else None

    return wait_until(look, timeout, "an upload that waits for the network")


@pytest.mark.limit(150)
@pytest.mark.parametrize("way", CUTS)
def test_an_upload_waits_and_goes_on_where_it_was(far_server, far_instance, network, folder, stack, seed, way):
    instance = far_instance
    instance.configure(stall_timeout="5s", connect_timeout="2s", max_rate="3M")
    mount = instance.mount("s3://bucket")
    size = 48 * MIB
    before = far_server.body_bytes()
    digest = write_random_file(mount / "big", size, seed)
    wait_until(lambda: far_server.body_bytes() - before >= 5 * MIB, 60, "an upload under way")
    attempts = Attempts(instance, folder, stack)
    follower = Lines(instance, "events", "--json")
    stack.callback(follower.stop)
    start = log_size(instance)
    wait_until(lambda: follower.lines, 20, "the first event")
    CUTS[way].cut(network, far_server)
    upload = expect_offline(instance, 30)
    assert MIB < upload["sent"] < size
    # Long enough for a loop to show; a file that is written meanwhile waits as well.
    time.sleep(6)
    assert expect_offline(instance, 5)["sent"] == upload["sent"]
    attempts.stop()
    port = int(far_server.address.rpartition(":")[2])
    print("attempts:", attempts.count(port), events(instance, start))
    assert attempts.count(port) <= REQUESTS + 2 * PROBES_OF_FIRST_MINUTE
    assert len(events(instance, start)) == 1, events(instance, start)
    CUTS[way].restore(network, far_server)
    instance.run("policy", "set", "max_rate=off")
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
    assert len(events(instance, start)) == 2, events(instance, start)
    told = [event for event in follower.documents if event["event"] == "gate"]
    assert [(event["state"], [wait["reason"] for wait in event["waiting"]]) for event in told] == [
        ("closed", ["offline"]), ("open", []),
    ], told
    assert sha256_of_object(far_server.client(), "bucket", "big") == digest
    # What the server read before its connections died was acknowledged; what the kernel held is sent again.
    assert far_server.body_bytes() - before <= size + 3 * MIB


@pytest.mark.limit(300)
def test_attempts_get_fewer(far_server, far_instance, folder, stack, seed):
    """Two minutes without an answer, while somebody writes."""
    instance = far_instance
    instance.configure(quiet_period="0s")
    mount = instance.mount("s3://bucket")
    write_random_file(mount / "first", 1000, seed)
    wait_until(lambda: instance.pending_files() == 0, 60, "a first upload")
    port = int(far_server.address.rpartition(":")[2])
    attempts = Attempts(instance, folder, stack)
    far_server.kill()
    write_random_file(mount / "second", 1000, seed)
    expect_offline(instance, 30)
    wait_until(lambda: attempts.times(port), 30, "the first attempt")
    time.sleep(121)
    attempts.stop()
    times = attempts.times(port)
    ages = [time - times[0] for time in times]
    print("attempts after, in seconds:", [round(age, 1) for age in ages])
    assert len([age for age in ages if age < 60]) <= REQUESTS + 2 * PROBES_OF_FIRST_MINUTE
    assert 2 <= len([age for age in ages if 60 <= age < 120]) <= 2 * PROBES_OF_A_LATER_MINUTE
    far_server.restart()
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")


@pytest.mark.limit(120)
def test_volumes_with_one_server_ask_once_for_all(far_server, far_instance, folder, stack):
    """What one finds out of the server the others need not: neither that it is away, nor that it is back."""
    instance = far_instance
    instance.configure(connect_timeout="2s", quiet_period="0s")
    names = [f"bucket-{number}" for number in range(8)]
    mounts = []
    for name in names:
        far_server.make_bucket(name)
        mounts.append(instance.mount(f"s3://{name}"))
        write_file(mounts[-1] / "first", b"1")
    instance.flush()
    far_server.kill()
    attempts = Attempts(instance, folder, stack)
    start = log_size(instance)
    for mount in mounts:
        write_file(mount / "second", b"2")

    def waiting():
        # A new file waits for a moment in any case, and its volume has not asked yet.
        reasons = [{item["reason"] for item in upload["waiting"]} for upload in instance.uploads()]
        return len(reasons) == len(names) and all("offline" in found for found in reasons)

    wait_until(waiting, 20, "all to wait")
    time.sleep(15)
    attempts.stop()
    count = attempts.count(int(far_server.address.rpartition(":")[2]))
    print("attempts:", count)
    # Each may have been asking when the first found out.
    assert waiting() and count <= 2 * (len(names) + PROBES_OF_FIRST_MINUTE)
    assert len(events(instance, start)) == len(names), events(instance, start)
    far_server.restart()
    wait_until(lambda: instance.pending_files() == 0, 60, "all to go on by themselves")
    assert len(events(instance, start)) == 2 * len(names), events(instance, start)
    # Each would have found out in a time of its own, seconds from the others; one may have met the server by itself.
    back = sorted(datetime.fromisoformat(event[:23]) for event in events(instance, start)[len(names):])
    assert min(back[-1] - back[1], back[-2] - back[0]) < timedelta(seconds=1), back


@pytest.fixture
def resolving(make_instance, far_server, network, folder, stack):
    """An instance whose endpoint is a name, and the file that resolves it (hosts(5)); its mounts are its own."""
    hosts, resolver = os.path.join(folder, "hosts"), os.path.join(folder, "resolv.conf")
    write_file(hosts, b"127.0.0.1 localhost\n")
    write_file(resolver, b"nameserver 10.77.0.2\noptions timeout:1 attempts:1\n")
    instance = make_instance(f"http://bucket.moorage.test:{far_server.address.rpartition(':')[2]}", "instance")
    files = {"/etc/hosts": hosts, "/etc/resolv.conf": resolver}
    give_own_files(instance, files, folder, stack, inside=network.words("machine"))
    return instance, hosts


@pytest.mark.limit(150)
def test_a_name_that_nobody_resolves_is_a_network_that_is_away(resolving, far_server, network, folder, stack):
    """The name server does not answer, as behind a router that is not connected."""
    instance, hosts = resolving
    entry = f"{network.ADDRESS} bucket.moorage.test\n".encode()
    write_file(hosts, entry)
    instance.configure(connect_timeout="3s")
    mount = instance.mount("s3://bucket")
    network.nft(["udp dport 53 drop"])
    write_file(hosts, b"127.0.0.1 localhost\n")
    attempts = Attempts(instance, folder, stack)
    start = log_size(instance)
    run([*instance.inside, "cp", instance.binary, mount / "small"])
    expect_offline(instance, 30)
    time.sleep(6)
    expect_offline(instance, 5)
    attempts.stop()
    # Each attempt asks for addresses of both families, of one server or its neighbours.
    assert 0 < attempts.count(53) <= 4 * (1 + 2 * PROBES_OF_FIRST_MINUTE)
    assert len(events(instance, start)) == 1, events(instance, start)
    write_file(hosts, entry)
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
    assert far_server.client().get_object(Bucket="bucket", Key="small")["Body"].read()
