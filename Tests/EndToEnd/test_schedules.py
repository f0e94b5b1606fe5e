# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Uploads go when they are meant to: windows, moments, deadlines, priorities, and when there is time."""

import errno
import glob
import os
import shutil
import subprocess
import time
from datetime import datetime, timezone

import pytest

from harness.held import CLOSING, PATIENCE, expect_held, expect_remote, keys, reasons, waiting, write_small
from harness.own_files import give_own_files
from harness.processes import wait_until
from harness.settings import BINARY
from harness.trees import write_file, write_random_file

MIB = 1 << 20
# It shows programs another time than it is.
FALSE_CLOCK = "/usr/lib/*/faketime/libfaketime.so.1"
# Two windows of a minute each, of which no test meets more than one, and no test twice.
CLOSED = "Mon 00:00-00:01"
# Small files that are sent beside `parallel_files`.
SMALL_AT_ONCE = 8


def zone_in_which_it_is(hour, minute, second):
    """A time zone by whose clocks it is that time now (tzset(3))."""
    now = datetime.now(timezone.utc)
    west = (now.hour * 3600 + now.minute * 60 + now.second) - (hour * 3600 + minute * 60 + second)
    # Half a day either way is what tzset allows for sure.
    west = (west + 43200) % 86400 - 43200
    sign = "-" if west < 0 else ""
    west = abs(west)
    return f"<test>{sign}{west // 3600:02}:{west // 60 % 60:02}:{west % 60:02}"


def test_a_window_opens_by_the_clock_on_the_wall(client, instance):
    instance.environment["TZ"] = zone_in_which_it_is(11, 59, 45)
    instance.configure(window="12:00-13:00", quiet_period="0s")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a")
    expect_held(instance, "a", "window")
    until = datetime.fromisoformat(waiting(instance, "a")[0]["until"].replace("Z", "+00:00"))
    assert 0 < (until - datetime.now(timezone.utc)).total_seconds() < 20
    assert keys(client) == []
    expect_remote(client, "a")
    assert datetime.now(timezone.utc) >= until


def test_the_zone_may_change_under_a_running_flusher(client, instance, folder, stack):
    """As on a journey: /etc/localtime is another file all of a sudden; in a mount namespace of its own."""
    zone = os.path.join(folder, "zone")
    shutil.copyfile("/usr/share/zoneinfo/Etc/UTC", zone)
    give_own_files(instance, {"/etc/localtime": zone}, folder, stack)
    instance.environment.pop("TZ", None)
    hour = datetime.now(timezone.utc).hour
    instance.configure(window=f"{(hour + 6) % 24:02}:00-{(hour + 9) % 24:02}:00", quiet_period="0s")
    mount = instance.mount("s3://bucket")
    subprocess.run([*instance.inside, "sh", "-c", f"echo content > {mount.path}/a"], check=True)
    expect_held(instance, "a", "window")
    # glibc looks at the file's seconds.
    time.sleep(1.1)
    # Seven hours east of Greenwich it is that time already.
    shutil.copyfile("/usr/share/zoneinfo/Etc/GMT-7", zone)
    expect_remote(client, "a")


@pytest.mark.skipif(not glob.glob(FALSE_CLOCK), reason="libfaketime is not there")
def test_the_clock_may_be_set_under_a_running_flusher(client, instance, folder):
    """Three hours ahead, and back again: windows go by what it shows, and what goes on is sent all the same."""
    clock = os.path.join(folder, "clock")
    write_file(clock, b"+0")
    instance.environment.update(
        LD_PRELOAD=glob.glob(FALSE_CLOCK)[0], FAKETIME_TIMESTAMP_FILE=clock, FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1", TZ=zone_in_which_it_is(11, 0, 0),
    )
    instance.configure(window="14:00-15:00", quiet_period="0s")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a")
    expect_held(instance, "a", "window")
    # The server's own clock stays what it was.
    write_file(clock, b"+3h")
    expect_remote(client, "a")
    write_file(clock, b"-2h")
    # It looks at the clock every second.
    wait_until(lambda: [hold["reason"] for hold in instance.status()["volumes"][0]["holds"]] == ["window"], PATIENCE,
               "the flusher to see that the window is closed")
    write_small(mount, "b")
    expect_held(instance, "b", "window")
    until = datetime.fromisoformat(waiting(instance, "b")[0]["until"].replace("Z", "+00:00"))
    assert abs((until - datetime.now(timezone.utc)).total_seconds() - 3 * 3600) < 600
    instance.run("policy", "set", "--for", "1h", "window=00:00-24:00")
    expect_remote(client, "a", "b")


def test_a_window_that_closes_stops_what_is_under_way(client, proxy, instance):
    instance.environment["TZ"] = zone_in_which_it_is(11, 59, 48)
    instance.configure(window="11:00-12:00", quiet_period="0s", upload_protocol="s3-multipart", part_size="5M")
    proxy.limit(up=MIB)
    mount = instance.mount("s3://bucket")
    # There is little time: nothing that the disk would have to take before.
    with open(mount / "big", "wb") as file:
        file.truncate(40 * MIB)
    wait_until(lambda: proxy.body_bytes() > 0, PATIENCE, "the upload to begin")
    expect_held(instance, "big", "window")
    time.sleep(CLOSING)
    count = proxy.body_bytes()
    time.sleep(2)
    assert proxy.body_bytes() == count < 40 * MIB
    proxy.limit()
    instance.run("policy", "set", "window=00:00-24:00")
    expect_remote(client, "big")
    # What was acknowledged is not sent again: at most the parts that were cut.
    assert proxy.body_bytes() < 40 * MIB + 4 * 5 * MIB + MIB


def test_what_cannot_be_resumed_is_not_begun_where_it_does_not_fit(client, instance, proxy, seed):
    """It would be cut when the window closes, and sent again from the beginning in the next one."""
    instance.environment["TZ"] = zone_in_which_it_is(11, 57, 0)
    instance.configure(window="11:00-12:00", quiet_period="0s", upload_protocol="put", max_rate="1M")
    mount = instance.mount("s3://bucket")
    # How fast it goes is known from then on.
    write_random_file(mount / "first", 6 * MIB, seed)
    expect_remote(client, "first")
    with open(mount / "big", "wb") as file:
        file.truncate(900 * MIB)
    write_random_file(mount / "second", MIB, seed)
    expect_held(instance, "big", "window")
    [hold] = waiting(instance, "big")
    assert "cannot be resumed" in hold["detail"] and hold["until"] is not None
    expect_remote(client, "first", "second")
    assert proxy.requests("PUT object", "big") == []
    # A person who asks for it knows better; and in parts it goes as far as it comes.
    instance.run("uploads", "now", mount / "big")
    wait_until(lambda: instance.uploads()[0]["state"] == "uploading", PATIENCE, "what is asked for to go")
    instance.run("uploads", "cancel", mount / "big")


def test_large_files_may_be_given_time_by_their_size(client, instance, bus, seed):
    upower = bus.upower(on_battery=True, percentage=90)
    instance.configure(quiet_period="0s", discretionary_above="2M")
    mount = instance.mount("s3://bucket")
    write_random_file(mount / "large", 2 * MIB, seed)
    write_random_file(mount / "small", 2 * MIB - 1, seed)
    expect_remote(client, "small")
    expect_held(instance, "large", "battery")
    # The other's object is there before the answer is.
    wait_until(lambda: len(instance.uploads()) == 1, PATIENCE, "the end of the other")
    [upload] = instance.uploads()
    assert upload["details"]["class"] == "discretionary"
    # What would send it is told, and does so.
    why = instance.run("uploads", "why", mount / "large").stdout
    assert "it is discretionary" in why and "battery_min=" not in why
    assert "setfattr -n user.moorage.discretionary -v no PATH" in why
    os.setxattr(mount / "large", "user.moorage.discretionary", b"no")
    expect_remote(client, "large", "small")
    write_random_file(mount / "other", 2 * MIB, seed)
    expect_held(instance, "other", "battery")
    upower.update(OnBattery="false")
    expect_remote(client, "large", "other", "small")


def test_a_file_waits_for_its_moment_and_goes_when_it_is_taken_back(client, instance):
    instance.configure(quiet_period="0s")
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write_small(mount, "later")
    os.setxattr(mount / "later", "user.moorage.not-before", b"+1h")
    write_small(mount, "now")
    instance.run("policy", "set", "low-data=auto")
    expect_remote(client, "now")
    expect_held(instance, "later", "not-before")
    told = os.getxattr(mount / "later", "user.moorage.not-before").decode()
    assert waiting(instance, "later")[0]["until"][:19] == told[:19]
    mount.unmount()
    mount = instance.mount("s3://bucket")
    assert os.getxattr(mount / "later", "user.moorage.not-before").decode() == told
    os.removexattr(mount / "later", "user.moorage.not-before")
    expect_remote(client, "later", "now")
    # The object is there before the answer is.
    wait_until(lambda: instance.pending_files() == 0, PATIENCE, "the end of the upload")
    with pytest.raises(OSError) as failure:
        os.setxattr(mount / "later", "user.moorage.not-before", b"+1h")
    assert failure.value.errno == errno.ENODATA


def test_a_moment_comes_by_itself(client, instance):
    instance.configure(quiet_period="0s")
    mount = instance.mount("s3://bucket")
    with open(mount / "a", "w") as file:
        os.setxattr(mount / "a", "user.moorage.not-before", b"+10s")
        file.write("content")
    moment = datetime.fromisoformat(os.getxattr(mount / "a", "user.moorage.not-before").decode().replace("Z", "+00:00"))
    expect_held(instance, "a", "not-before")
    assert keys(client) == []
    expect_remote(client, "a")
    assert client.head_object(Bucket="bucket", Key="a")["LastModified"].timestamp() >= int(moment.timestamp())


def test_wishes_that_mean_nothing_are_refused(client, instance):
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a")
    for name, value in [
        ("not-before", b"soon"), ("deadline", b"2h"), ("priority", b"101"), ("priority", b"x"), ("discretionary", b"perhaps"),
        ("window", b"now"), ("battery-min", b"101"), ("stall-timeout", b"1s"), ("rate_limit", b"10"),
        ("expensive-daily", b"0"),
    ]:
        with pytest.raises(OSError) as failure:
            os.setxattr(mount / "a", f"user.moorage.{name}", value)
        assert failure.value.errno == errno.EINVAL
    for name in ["state", "low_data_networks", "max_rate", "discretionary_above", "endpoint"]:
        with pytest.raises(OSError) as failure:
            os.setxattr(mount / "a", f"user.moorage.{name}", b"1")
        assert failure.value.errno == errno.EPERM, name
    with pytest.raises(OSError):
        os.getxattr(mount / "a", "user.moorage.deadline")
    assert os.listxattr(mount / "a") == []


def test_priority_orders_what_waits(client, proxy, instance):
    instance.configure(quiet_period="0s", parallel_files=1)
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    names = [f"f{number:02}" for number in range(20)]
    for number, name in enumerate(names):
        write_small(mount, name)
        os.setxattr(mount / name, "user.moorage.priority", str(number).encode())
    expect_held(instance, names[-1], "constrained")
    wait_until(lambda: all(reasons(instance, name) for name in names), PATIENCE, "all to be known")

    def queue():
        return [upload["path"] for upload in sorted(instance.uploads(), key=lambda upload: upload["details"]["rank"])]

    wait_until(lambda: queue() == names[::-1], PATIENCE, "their order to be known")
    # They overtake each other on their way: who is sent first is seen when none arrives.
    held = proxy.rule("hold", method="PUT", path="/bucket/f", times="all")
    instance.run("policy", "set", "low-data=auto")
    held.wait(SMALL_AT_ONCE)

    def sent():
        return sorted(upload["path"] for upload in instance.uploads() if upload["state"] == "uploading")

    wait_until(lambda: sent() == names[-SMALL_AT_ONCE:], PATIENCE, "those of the highest priority to be the first")
    held.release()
    expect_remote(client, *names)


def test_a_deadline_opens_a_window_and_not_the_purse(client, instance):
    instance.configure(quiet_period="0s", window=CLOSED, deadline="+1s")
    instance.run("policy", "set", "metered=yes")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a")
    expect_held(instance, "a", "expensive")
    instance.run("policy", "set", "metered=no")
    expect_remote(client, "a")


def test_a_remote_that_does_not_answer_in_time_gets_less_at_once(client, proxy, instance):
    instance.configure(quiet_period="0s", upload_protocol="put", stall_timeout="5s", parallel_files=8)
    rule = proxy.rule("stall", method="PUT", path="/file", direction="request", after=65536, times="all")
    mount = instance.mount("s3://bucket")
    names = [f"file{number}" for number in range(8)]
    for name in names:
        with open(mount / name, "wb") as file:
            # More than the sockets between hold.
            file.truncate(32 * MIB)
    wait_until(lambda: rule.matched() == 8, PATIENCE, "all to begin")
    wait_until(lambda: rule.matched() > 8, PATIENCE, "some to begin again")
    # Before any of these may be given up.
    time.sleep(2)
    assert rule.matched() <= 12
    rule.remove()
    expect_remote(client, *names)


def test_whatever_a_wish_goes_before_is_told(client, proxy, instance, seed):
    """Rules of paths and files, moments, and gates that close while somebody waits."""
    instance.configure(quiet_period="0s")
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write(f"[path *:*.night]\nwindow = {CLOSED}\n[path *:*.slow]\ndiscretionary = yes\n")
    instance.run("policy", "set", "metered=yes", "allow_expensive=yes")
    mount = instance.mount("s3://bucket")
    for name in ["a.night", "b", "c.slow", "d.night"]:
        with open(mount / name, "w") as file:
            file.write("content")
            if name == "b":
                os.setxattr(mount / name, "user.moorage.not-before", b"+1h")
    expect_held(instance, "a.night", "window")
    expect_held(instance, "b", "not-before")
    expect_held(instance, "c.slow", "expensive")

    def told(*words):
        return instance.run(*words).stderr.splitlines()

    line = "moorage: s3://bucket: sent now as you ask for it, although: "
    assert told("uploads", "now", mount / "a.night") == [line + "window"]
    assert told("uploads", "retry", mount / "b") == [line + "not-before"]
    assert told("flush") == [line + "expensive, window"]
    expect_remote(client, "a.night", "b", "c.slow", "d.night")
    proxy.offline()
    write_small(mount, "e")
    flush = subprocess.Popen(
        [BINARY, "flush", "--timeout", "60"], env=instance.environment, stderr=subprocess.PIPE, text=True
    )
    time.sleep(2)
    instance.run("policy", "unset", "allow_expensive")
    time.sleep(2)
    proxy.online()
    assert flush.communicate(timeout=90)[1].splitlines() == [line + "expensive"] and flush.returncode == 0
    # Of programs that wait there is nobody to tell but the log.
    mount.unmount()
    mount = instance.mount("s3://bucket", None, "close=remote")
    write_small(mount, "f.night")
    expect_remote(client, "a.night", "b", "c.slow", "d.night", "e", "f.night")
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        assert "sent now as somebody waits for it, although: expensive, window" in file.read()


def test_what_waits_for_too_long_is_told_and_not_dropped(client, instance):
    instance.configure(quiet_period="0s", lifetime="2s")
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a")

    def is_told():
        uploads = instance.uploads()
        volumes = instance.status()["volumes"]
        return [upload["state"] for upload in uploads] == ["attention"] and volumes[0]["attention"] == 1

    wait_until(is_told, PATIENCE, "the upload to need attention")
    assert "constrained" in instance.uploads()[0]["error"]
    instance.run("policy", "set", "low-data=auto")
    expect_remote(client, "a")
    wait_until(lambda: instance.status()["volumes"][0]["attention"] == 0, PATIENCE, "attention to end")


def test_what_has_time_waits_for_a_busy_and_hot_machine(client, instance):
    processes, system = instance.environment["MOORAGE_PROCFS"], instance.environment["MOORAGE_SYSFS"]
    zone = os.path.join(system, "class/thermal/thermal_zone0")
    os.makedirs(os.path.join(processes, "pressure"))
    os.makedirs(zone)

    def set_machine(average, temperature):
        for path, text in [
            (f"{processes}/pressure/io", f"some avg10={average:.2f} avg60=0.00 avg300=0.00 total=1\n"),
            (f"{zone}/temp", f"{temperature}\n"),
            (f"{zone}/trip_point_0_type", "passive\n"),
            (f"{zone}/trip_point_0_temp", "80000\n"),
        ]:
            write_file(path, text.encode())

    set_machine(50, 90_000)
    instance.configure(quiet_period="0s")
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write_small(mount, "later")
    os.setxattr(mount / "later", "user.moorage.discretionary", b"1")
    write_small(mount, "now")
    expect_held(instance, "later", "constrained", "load", "thermal")
    instance.run("policy", "set", "low-data=auto")
    expect_remote(client, "now")
    assert reasons(instance, "later") == ["load", "thermal"]
    set_machine(15, 70_000)
    # Not yet so much better that it would stay so.
    expect_held(instance, "later", "load")
    set_machine(5, 70_000)
    expect_remote(client, "later", "now")
