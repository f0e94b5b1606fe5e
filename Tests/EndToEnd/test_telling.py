# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What the flusher tells without being asked: metrics, the user's programs, the desktop."""

import contextlib
import os
import re
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.held import expect_held
from harness.machine import PYTHON
from harness.processes import listens, run, wait_until
from harness.trees import all_keys, random_bytes, write_file


def keys(client):
    return sorted(all_keys(client, "bucket"))


def scrape(path):
    """One answer of the metrics' unix socket, head and body."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(path)
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, body = answer.decode().split("\r\n\r\n", 1)
    return head, body


def samples(body):
    return {(sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(body) for sample in family.samples}


def test_metrics_are_served_on_a_socket(instance, mount):
    mount.unmount()
    instance.kill_flusher()
    path = os.path.join(instance.folder, "metrics.sock")
    instance.configure(metrics_listen=path)
    mount = mount.mount_again()
    wait_until(lambda: listens(path), 20, "the socket")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    instance.run("policy", "set", "metered=yes")
    for number in range(3):
        write_file(mount / f"secret-name-{number}", b"content")
    volume = instance.status()["volumes"][0]["id"]
    wait_until(lambda: samples(scrape(path)[1]).get(("moorage_waiting_uploads", *sorted((volume, "expensive")))) == 3,
               20, "three that wait")
    wait_until(lambda: samples(scrape(path)[1])["moorage_oldest_wait_seconds", volume] > 0, 20, "a second of waiting")
    head, body = scrape(path)
    assert head.startswith("HTTP/1.1 200 ") and "Content-Type: text/plain; version=0.0.4" in head
    assert "secret-name" not in body and "bucket" not in body and "127.0.0.1" not in body
    found = samples(body)
    assert found["moorage_pending_changes", volume] == 3 and found["moorage_pending_bytes", volume] == 21
    assert found["moorage_gate_closed", *sorted((volume, "expensive"))] == 1
    assert found["moorage_gate_closed", *sorted((volume, "offline"))] == 0
    for family in text_string_to_metric_families(body):
        assert family.documentation and family.type in ("counter", "gauge"), family
    instance.run("policy", "unset")
    instance.flush()
    found = wait_until(lambda: (now := samples(scrape(path)[1])).get(("moorage_finished_total", volume)) == 3 and now,
                       20, "what is finished")
    assert found["moorage_sent_bytes_total", volume] == 21 and found["moorage_requests_total",] >= 3
    # Whoever says nothing, or something else, keeps nobody out for long.
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as odd:
        silent.connect(path)
        odd.connect(path)
        odd.sendall(b"POST /metrics HTTP/1.1\r\n\r\n")
        assert scrape(path)[0].startswith("HTTP/1.1 200 ")
        assert odd.recv(100).startswith(b"HTTP/1.1 405 ")


def test_metrics_are_served_on_a_loopback_port_and_nowhere_else(instance, mount):
    mount.unmount()
    instance.kill_flusher()
    instance.configure(metrics_listen="127.0.0.1:0")
    instance.run("policy", "show")
    log = os.path.join(instance.directory("run"), "flusher.log")
    port = wait_until(lambda: re.findall(r"metrics\[\d+\]: listening on 127.0.0.1:(\d+)", open(log).read()), 20, "its port")
    with urllib.request.urlopen(f"http://127.0.0.1:{port[-1]}/metrics", timeout=20) as answer:
        assert b"moorage_build_info" in answer.read()
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{port[-1]}/", timeout=20)
    instance.configure(metrics_listen="0.0.0.0:0")
    result = instance.run("status", check=False)
    assert result.returncode == 1 and "metrics_listen=0.0.0.0:0 is not" in result.stderr, result.stderr
    instance.configure(metrics_listen="127.0.0.1:0")


class Hooks:
    """A program that notes what it is called with, and answers as it is told."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "hook")
        self.log = os.path.join(folder, "hook.out")
        self.answer = os.path.join(folder, "hook.answer")
        with open(self.path, "w") as file:
            # Who sees the call may give another answer at once.
            file.write(f"#!/bin/sh\nanswer=$(cat '{self.answer}' 2> /dev/null)\n"
                       f"(echo \"== $*\"; env; echo -- end) >> '{self.log}'\neval \"$answer\"\n")
        os.chmod(self.path, 0o700)

    def reply(self, script):
        with open(self.answer, "w") as file:
            file.write(script + "\n")

    @property
    def calls(self):
        """The environments of the calls so far, with the arguments under ''."""
        if not os.path.exists(self.log):
            return []
        with open(self.log) as file:
            parts = [part for part in file.read().split("== ")[1:] if "\n-- end\n" in part]
        return [{"": part.splitlines()[0]} | dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)
                for part in parts]


@pytest.fixture
def hooks(folder):
    return Hooks(folder)


def test_programs_are_run_when_nothing_is_pending_and_when_a_person_is_needed(instance, proxy, server, hooks):
    instance.configure(on_idle=f"{hooks.path} idle 'two words'", on_attention=f"{hooks.path} attention", hook_timeout="2s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"content")
    wait_until(lambda: hooks.calls, 20, "the program's first call")
    call = hooks.calls[0]
    assert call[""] == "idle two words" and call["MOORAGE_EVENT"] == "idle" and call["MOORAGE_REMOTE"] == "s3://bucket"
    assert not [name for name in call if name.startswith("AWS")] and "secret" not in str(call).lower()
    # A change at the remote meets one here.
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "a", b"ours")
    server.client().put_object(Bucket="bucket", Key="a", Body=b"theirs")
    hooks.reply("sleep 60")
    instance.run("policy", "unset")
    wait_until(lambda: any(call["MOORAGE_EVENT"] == "attention" for call in hooks.calls), 30, "the other program")
    [call] = [call for call in hooks.calls if call["MOORAGE_EVENT"] == "attention"]
    assert call["MOORAGE_PATH"] == "a" and "remote" in call["MOORAGE_REASON"]
    log = os.path.join(instance.directory("run"), "flusher.log")
    wait_until(lambda: "took longer than 2 s and was killed" in open(log).read(), 20, "the end of one that sleeps")
    instance.flush()


def test_what_waits_for_too_long_is_told_as_what_needs_a_person(instance, hooks, client):
    instance.configure(quiet_period="0s", lifetime="2s", on_attention=hooks.path)
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"content")
    wait_until(lambda: hooks.calls, 30, "the program's call")
    [call] = hooks.calls
    assert call["MOORAGE_PATH"] == "a" and "constrained" in call["MOORAGE_REASON"]
    # Once each.
    write_file(mount / "b", b"content")
    wait_until(lambda: len(hooks.calls) >= 2, 30, "the next one's")
    time.sleep(6)
    assert [call["MOORAGE_PATH"] for call in hooks.calls] == ["a", "b"]
    instance.run("policy", "unset")
    wait_until(lambda: keys(client) == ["a", "b"], 30, "uploads all the same")


def test_a_program_may_hold_or_refuse_what_has_waited(instance, client, hooks):
    instance.configure(before_start=hooks.path)
    mount = instance.mount("s3://bucket")
    write_file(mount / "fresh", b"content")
    wait_until(lambda: keys(client) == ["fresh"], 20, "what did not wait")
    assert hooks.calls == []
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "late", b"content")
    time.sleep(6)
    hooks.reply("echo 1h; exit 10")
    instance.run("policy", "unset")
    wait_until(lambda: [wait["reason"] for upload in instance.uploads() for wait in upload["waiting"]] == ["not-before"],
               20, "a hold")
    [call] = hooks.calls
    assert (call["MOORAGE_EVENT"], call["MOORAGE_PATH"], call["MOORAGE_SIZE"]) == ("before-start", "late", "7")
    assert int(call["MOORAGE_WAITED"]) >= 5 and keys(client) == ["fresh"]
    # Whoever asks for it is not asked.
    instance.run("uploads", "now", mount / "late")
    wait_until(lambda: keys(client) == ["fresh", "late"], 20, "what a person wants")
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "never", b"content")
    time.sleep(6)
    hooks.reply("echo not today; exit 11")
    instance.run("policy", "unset")
    wait_until(lambda: [upload["state"] for upload in instance.uploads()] == ["attention"], 20, "a refusal")
    assert instance.uploads()[0]["error"] == "before_start: not today"
    assert "never" in os.listdir(mount.path) and keys(client) == ["fresh", "late"], "nothing is dropped"
    instance.run("uploads", "retry", mount / "never")
    wait_until(lambda: "never" in keys(client), 20, "what a person wants after all")


def test_a_program_is_not_asked_about_what_waits_for_readers(instance, client, hooks, seed):
    client.put_object(Bucket="bucket", Key="a", Body=random_bytes(seed, 6 << 20))
    instance.configure(before_start=hooks.path, quiet_period="0s")
    mount = instance.mount("s3://bucket", None, "cache_size=0")
    with open(mount / "a", "rb"):
        os.unlink(mount / "a")
        write_file(mount / "a", b"made anew")
        expect_held(instance, "a", "open")
        # Longer than what has waited is called so after.
        time.sleep(8)
        assert hooks.calls == []
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"made anew"


def test_a_program_may_change_what_has_waited(instance, client, hooks):
    instance.configure(before_start=hooks.path)
    mount = instance.mount("s3://bucket")
    instance.run("policy", "set", "metered=yes")
    for name in ("at once", "later"):
        write_file(mount / name, b"content")
    time.sleep(6)
    hooks.reply("echo priority=7; echo rate-limit = 1M; [ \"$MOORAGE_PATH\" != later ] || echo window=Mon 00:00-00:01; exit 10")
    instance.run("policy", "unset")
    wait_until(lambda: keys(client) == ["at once"], 20, "what may begin so to begin")
    wait_until(lambda: [wait["reason"] for upload in instance.uploads() for wait in upload["waiting"]] == ["window"],
               20, "what may not to wait")
    # The other's object is there before the answer is.
    wait_until(lambda: len(instance.uploads()) == 1, 20, "the end of the other")
    [upload] = instance.uploads()
    assert upload["details"]["settings"] == {"priority": "7", "rate_limit": "1M", "window": "Mon 00:00-00:01"}
    assert len(hooks.calls) == 2, "each was asked about once"
    # What is no answer lets it begin, and is told.
    hooks.reply("echo priority=7; echo colour=red; exit 10")
    os.setxattr(mount / "later", "user.moorage.window", b"")
    wait_until(lambda: keys(client) == ["at once", "later"], 20, "what may begin now")
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        assert "before_start ended with 10, which is no answer" in file.read()


def test_the_answer_of_a_program_is_for_the_file_it_was_asked_about(instance, client, hooks):
    """While it thinks, the file is renamed and another one takes its name; and a person asks for a third one."""
    instance.configure(before_start=hooks.path, parallel_files=1)
    mount = instance.mount("s3://bucket")
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "a", b"first")
    time.sleep(6)
    hooks.reply("sleep 3; echo 1h; exit 10")
    instance.run("policy", "unset")
    wait_until(lambda: len(hooks.calls) == 1, 20, "the question")
    os.rename(mount / "a", mount / "b")
    write_file(mount / "a", b"second")
    hooks.reply("exit 0")
    wait_until(lambda: keys(client) == ["a"], 20, "the other one")
    wait_until(lambda: [(upload["path"], [wait["reason"] for wait in upload["waiting"]]) for upload in instance.uploads()]
               == [("b", ["not-before"])], 20, "the answer to count for the first one")
    hooks.reply("sleep 3; echo 2h; exit 10")
    # It has to have waited.
    time.sleep(6)
    os.removexattr(mount / "b", "user.moorage.not-before")
    wait_until(lambda: len(hooks.calls) == 2, 20, "the question")
    instance.run("uploads", "now", mount / "b")
    wait_until(lambda: keys(client) == ["a", "b"], 20, "what a person wants")


def test_what_changed_while_it_waited_is_looked_at_again(instance, proxy, client):
    """Superseded, renamed and deleted while it waited: what is sent is what there is when its turn comes."""
    instance.run("policy", "set", "metered=yes")
    mount = instance.mount("s3://bucket")
    for name in ("superseded", "renamed", "deleted"):
        write_file(mount / name, b"first content of " + name.encode())
    wait_until(lambda: len(instance.uploads()) == 3, 20, "what waits")
    write_file(mount / "superseded", b"second")
    os.rename(mount / "renamed", mount / "new name")
    os.unlink(mount / "deleted")
    proxy.zero()
    instance.run("policy", "unset")
    instance.flush()
    assert keys(client) == ["new name", "superseded"]
    assert client.get_object(Bucket="bucket", Key="superseded")["Body"].read() == b"second"
    assert proxy.body_bytes() == len(b"second") + len(b"first content of renamed"), "nothing but what is wanted was sent"


@pytest.fixture
def desktop(folder, stack, instance):
    """A session bus with a notification daemon of python-dbusmock; returns what it was told."""
    address = f"unix:path={os.path.join(folder, 'session.sock')}"
    daemon = subprocess.Popen(["dbus-daemon", "--session", f"--address={address}", "--nofork", "--nopidfile"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(lambda: (daemon.kill(), daemon.wait(10)))
    wait_until(lambda: listens(os.path.join(folder, "session.sock")), 20, "the session bus")
    environment = os.environ | {"DBUS_SESSION_BUS_ADDRESS": address}
    log = os.path.join(folder, "notifications.log")
    service = subprocess.Popen([PYTHON, "-m", "dbusmock", "--session", "--template", "notification_daemon", "-l", log],
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    stack.callback(lambda: (service.kill(), service.wait(10)))
    run(["gdbus", "wait", "--session", "--timeout", "20", "org.freedesktop.Notifications"], env=environment)
    instance.environment["DBUS_SESSION_BUS_ADDRESS"] = address

    def told():
        with contextlib.suppress(FileNotFoundError), open(log) as file:
            return file.read().split(" Notify ")[1:]
        return []

    return told


def test_the_desktop_is_told_once_what_needs_a_person(instance, server, desktop):
    instance.run("policy", "set", "metered=yes")
    mount = instance.mount("s3://bucket")
    for number in range(4):
        write_file(mount / f"f{number}", b"ours")
        server.client().put_object(Bucket="bucket", Key=f"f{number}", Body=b"theirs")
    instance.run("policy", "unset")
    instance.flush()
    wait_until(desktop, 30, "a message")
    time.sleep(4)
    [text] = desktop()
    assert "Moorage: 4 conflicts" in text and "and 1 more" in text and "moorage uploads" in text, text
