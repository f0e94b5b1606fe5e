# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Whatever closes stops an upload that is under way, which goes on where it was when it opens again."""

import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

from harness.held import CLOSING, PATIENCE, expect_all_held, expect_done, standing
from harness.machine import add_connection
from harness.network import missing
from harness.processes import wait_until
from harness.trees import sha256_of_object, write_random_file

MIB = 1 << 20
PART = 5 * MIB


@pytest.mark.parametrize(
    "settings,loss",
    [
        ({"upload_protocol": "s3-multipart", "part_size": "5M", "parallel_parts": 2}, 2 * PART),
        ({"upload_protocol": "auto"}, MIB // 4),
        # One request has no parts to keep.
        ({"upload_protocol": "put"}, 48 * MIB),
    ],
    ids=["s3-multipart", "ietf-resumable", "put"],
)
def test_a_network_that_becomes_metered_stops_an_upload(server, proxy, instance, bus, seed, settings, loss):
    manager = bus.network_manager()
    instance.configure(**settings)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=3 * MIB)
    proxy.zero()
    before = server.body_bytes()
    size = 48 * MIB
    digest = write_random_file(mount / "big", size, seed)
    wait_until(lambda: proxy.body_bytes() >= 12 * MIB, 60, "an upload under way")
    manager.update(Metered="uint32 1")
    stopped = wait_until(lambda: standing(proxy), CLOSING, "bytes that flow no more")
    expect_all_held(instance, "expensive")
    [upload] = instance.uploads()
    assert upload["state"] == "waiting" and upload["sent"] < size
    assert (upload["sent"] > 0) == (upload["protocol"] != "put")
    assert upload["waiting"][0]["until"] is None and "NetworkManager" in upload["waiting"][0]["detail"]
    assert "expensive" in instance.run("uploads", "why", "--all").stdout
    assert "held: expensive" in instance.run("status").stdout
    assert instance.status()["volumes"][0]["holds"][0]["reason"] == "expensive"
    # Long enough for another attempt of whatever kind.
    time.sleep(3)
    assert proxy.body_bytes() == stopped
    manager.update(Metered="uint32 4")
    wait_until(lambda: proxy.body_bytes() > stopped, PATIENCE, "bytes that flow again")
    proxy.limit(up=64 * MIB)
    expect_done(instance, 60)
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    assert server.body_bytes() - before <= size + loss + 64 * 1024


def low_charge(bus, instance):
    upower = bus.upower(on_battery=True, percentage=60)
    return lambda: bus.set_charge(upower, 10), lambda: bus.set_charge(upower, 60)


def unplugged(bus, instance):
    upower = bus.upower(on_battery=False, percentage=90)
    return lambda: upower.update(OnBattery="true"), lambda: upower.update(OnBattery="false")


def saving_power(bus, instance):
    profiles = bus.power_profiles()
    return lambda: profiles.update(ActiveProfile="'power-saver'"), lambda: profiles.update(ActiveProfile="'balanced'")


def costly_network(bus, instance):
    manager = bus.network_manager(metered=4)
    return lambda: manager.update(Metered="uint32 1"), lambda: manager.update(Metered="uint32 4")


def mobile_network(bus, instance):
    manager = bus.network_manager(metered=2)
    return (
        lambda: manager.update(PrimaryConnectionType="'gsm'"),
        lambda: manager.update(PrimaryConnectionType="'802-11-wireless'"),
    )


def low_data_network(bus, instance):
    manager = bus.network_manager()
    path = add_connection(manager, "Home")
    interface = f"{manager.name}.Connection.Active"
    return (
        lambda: manager.update(interface, path, Id="'My phone'"),
        lambda: manager.update(interface, path, Id="'Home'"),
    )


def used_budget(bus, instance):
    """It closes by itself."""
    bus.network_manager(metered=1)

    def is_used():
        return "quota" in instance.run("policy", "show", "--json").stdout

    return (
        lambda: wait_until(is_used, PATIENCE, "the budget to be used"),
        lambda: instance.run("policy", "set", "expensive_daily=1G"),
    )


def by_policy(closed, opened):
    return lambda bus, instance: (
        lambda: instance.run("policy", "set", closed), lambda: instance.run("policy", "set", opened)
    )


def far_window():
    """A window that is closed for hours to come."""
    hour = (datetime.now(timezone.utc).hour + 12) % 24
    return f"window={hour:02}:00-{hour:02}:30"
# The reason, what is set, and what makes the two ways to close it and to open it again.
GATES = {
    "battery": ("battery", {}, low_charge),
    "low-data": ("constrained", {}, by_policy("low-data=on", "low-data=auto")),
    "low-data-network": ("constrained", {"low_data_networks": "My phone"}, low_data_network),
    "cellular": ("cellular", {"allow_cellular": "false"}, mobile_network),
    "power-saver": ("power-saver", {}, saving_power),
    "discretionary-power": ("battery", {"discretionary": "true"}, unplugged),
    "discretionary-metered": ("expensive", {"discretionary": "true", "allow_expensive": "true"}, costly_network),
    "quota": ("quota", {"allow_expensive": "true", "expensive_daily": "8M"}, used_budget),
    "window": ("window", {}, by_policy(far_window(), "window=00:00-24:00")),
}


def parts(proxy, answered=False):
    """The numbers of the parts that were sent, as often as each was; or of those only that the client has an answer to."""
    records = proxy.requests("PUT part")
    return [
        urllib.parse.parse_qs(record["query"])["partNumber"][0]
        for record in records if record["client_status"] == 200 or not answered
    ]


@pytest.mark.parametrize("name", GATES)
def test_any_gate_that_closes_stops_an_upload_until_it_opens(server, proxy, instance, bus, seed, name):
    reason, settings, prepare = GATES[name]
    instance.environment["TZ"] = "UTC"
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=2, **settings)
    close, reopen = prepare(bus, instance)
    mount = instance.mount("s3://bucket")
    # What is in the sockets before the proxy then takes two or three seconds.
    proxy.limit(up=4 * MIB)
    proxy.zero()
    size = 6 * PART
    digest = write_random_file(mount / "big", size, seed)
    wait_until(lambda: parts(proxy, answered=True), 60, "a part at the server")
    close()
    stopped = wait_until(lambda: standing(proxy), CLOSING, "bytes that flow no more")
    expect_all_held(instance, reason)
    [upload] = instance.uploads()
    assert upload["state"] == "waiting" and PART <= upload["sent"] < size
    time.sleep(1)
    assert proxy.body_bytes() == stopped
    acknowledged = parts(proxy, answered=True)
    proxy.limit(up=64 * MIB)
    reopen()
    expect_done(instance, PATIENCE)
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    sent = parts(proxy)
    assert [number for number in acknowledged if sent.count(number) > 1] == [], "parts that were acknowledged"
    assert proxy.body_bytes() <= size + 2 * PART + 64 * 1024


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_an_upload_stops_where_no_route_is_left_until_there_is_one(far_server, far_instance, network, seed):
    instance = far_instance
    settings = {"upload_protocol": "s3-multipart", "part_size": "5M", "parallel_parts": 2}
    instance.configure(**settings, max_rate="3M", stall_timeout="5s", connect_timeout="2s")
    mount = instance.mount("s3://bucket")
    size = 8 * PART
    before = far_server.body_bytes()
    digest = write_random_file(mount / "big", size, seed)
    wait_until(lambda: far_server.body_bytes() - before > 2 * PART, 60, "parts at the server")
    network.ip("machine", "link", "set", "cable", "down")
    wait_until(lambda: instance.holds() == ["offline"], CLOSING, "the route to be missed")
    assert instance.condition("route")["value"] == "none"
    expect_all_held(instance, "offline")
    [upload] = instance.uploads()
    assert upload["state"] == "waiting" and PART <= upload["sent"] < size
    network.ip("machine", "link", "set", "cable", "up")
    network.route()
    instance.run("policy", "set", "max_rate=off")
    expect_done(instance, PATIENCE)
    assert sha256_of_object(far_server.client(), "bucket", "big") == digest
    assert far_server.body_bytes() - before <= size + 2 * PART + 64 * 1024


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("protocol", ["put", "s3-multipart"])
def test_on_a_slow_line_bytes_stop_in_time_too(far_server, far_instance, network, seed, protocol):
    """A megabit a second, before which a second's worth waits: what the kernel has taken in must not go on for long."""
    network.run("machine", "tc", "qdisc", "add", "dev", "cable", "root", *"tbf rate 1mbit burst 32kbit latency 1s".split())
    instance = far_instance
    instance.configure(upload_protocol=protocol, part_size="5M", parallel_parts=4)
    mount = instance.mount("s3://bucket")

    def sent():
        return network.counter("tx_bytes")

    before = sent()
    write_random_file(mount / "big", 40 * MIB, seed)
    # The kernel's buffers have grown by then.
    wait_until(lambda: sent() - before > 2 * MIB, PATIENCE, "an upload under way")
    instance.run("policy", "set", "metered=yes")
    expect_all_held(instance, "expensive", timeout=CLOSING)
    time.sleep(CLOSING)
    count = sent()
    time.sleep(3)
    # What the machine sends of itself is no upload's.
    assert sent() - count < 10_000


def test_what_is_nearly_done_is_let_finish(server, proxy, instance, bus, seed):
    """The end of a part is worth more than its bytes: a part that would take a second more is not thrown away."""
    manager = bus.network_manager()
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=1)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=4 * MIB)
    proxy.zero()
    before = server.body_bytes()
    digest = write_random_file(mount / "big", 6 * PART, seed)
    wait_until(lambda: proxy.body_bytes() >= 2 * PART + MIB, 60, "a third part under way")
    manager.update(Metered="uint32 3")
    expect_all_held(instance, "expensive")
    assert proxy.body_bytes() % PART == 0, "whole parts only"
    assert proxy.body_bytes() < 6 * PART
    manager.update(Metered="uint32 2")
    expect_done(instance, 60)
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    assert server.body_bytes() - before <= 6 * PART + 64 * 1024


def test_what_a_person_waits_for_goes_on_when_a_gate_closes(server, proxy, instance, bus, seed):
    manager = bus.network_manager()
    mount = instance.mount("s3://bucket")
    proxy.limit(up=4 * MIB)
    proxy.zero()
    digest = write_random_file(mount / "big", 32 * MIB, seed)
    with ThreadPoolExecutor() as pool:
        flush = pool.submit(instance.flush)
        wait_until(lambda: proxy.body_bytes() >= 4 * MIB, 60, "an upload under way")
        manager.update(Metered="uint32 1")
        wait_until(lambda: instance.holds() == ["expensive"], PATIENCE, "the gate to close")
        assert not flush.done(), "it closed too late to show anything"
        flush.result()
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    assert instance.holds() == ["expensive"]
