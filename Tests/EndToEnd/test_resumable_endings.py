# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Resumable uploads that are cut, taken over, finished or cancelled: `moorage serve` on the wire, in every version."""

import json
import os
import random
import signal
import time

import pytest
from harness.open_server import TARGET, content, cut_creation, send_and_see, stored
from harness.resumable import Dialect

# Broken transfers


@pytest.mark.parametrize("graceful", [True, False], ids=["fin", "reset"])
def test_a_cut_creation_resumes_at_the_byte(dialect, graceful):
    data = content(1_000_000)
    url = cut_creation(dialect, data[:345_678], len(data), graceful)
    offset, complete = dialect.offset(url)
    assert (offset, complete) == (345_678, False)
    assert stored(dialect) is None
    assert dialect.complete(dialect.append(url, offset, data[offset:], True)) is True
    assert stored(dialect) == data


def test_many_cuts_and_restarts_end_in_the_right_content(dialect, open_server, seed):
    generator = random.Random(seed)
    data = generator.randbytes(2_000_000)
    url, _ = dialect.create(TARGET, length=len(data))
    offset, rounds, sent = 0, 0, 0
    while offset < len(data):
        rounds += 1
        assert rounds < 60
        end = min(len(data), offset + generator.randrange(1, 400_000))
        with dialect.wire() as wire:
            complete = end == len(data)
            wire.begin("PATCH", url, dialect.fields(complete=complete, offset=offset), end - offset)
            if generator.random() < 0.6:
                count = generator.randrange(end - offset)
                wire.send(data[offset : offset + count])
                sent += count
                time.sleep(0.05)
                if generator.random() < 0.3:
                    open_server.restart()
            else:
                wire.send(data[offset:end])
                sent += end - offset
                assert wire.final()[1].status < 300
        time.sleep(0.05)
        offset, complete = dialect.offset(url)
    assert complete is True
    assert stored(dialect) == data
    assert sent < len(data) + 1_000_000


def test_a_head_takes_over_from_a_stuck_append(dialect):
    url, _ = dialect.create(TARGET)
    with dialect.wire() as stuck:
        stuck.begin("PATCH", url, dialect.fields(complete=False, offset=0), 1_000_000)
        send_and_see(dialect, stuck, b"z" * 123_456)
        begun = time.monotonic()
        assert dialect.offset(url) == (123_456, False)
        assert time.monotonic() - begun < 5
        _, response = stuck.final()
        assert response.status >= 400 and dialect.complete(response) is not True
    assert dialect.append(url, 123_456, b"end", True).status in (200, 201)
    assert stored(dialect) == b"z" * 123_456 + b"end"


def test_an_append_takes_over_from_a_stuck_creation(dialect):
    with dialect.wire() as stuck:
        stuck.begin("PUT", TARGET, dialect.fields(complete=False), 1_000_000)
        url = stuck.response()["Location"]
        send_and_see(dialect, stuck, b"z" * 1000)
        assert dialect.append(url, 1000, b"y" * 10, True).status in (200, 201)
    assert stored(dialect) == b"z" * 1000 + b"y" * 10


def test_a_delete_takes_over_too(dialect):
    url, _ = dialect.create(TARGET)
    with dialect.wire() as stuck:
        stuck.begin("PATCH", url, dialect.fields(complete=True, offset=0), 1000)
        send_and_see(dialect, stuck, b"z")
        assert dialect.delete(url).status == 204
    assert dialect.ask("HEAD", url, dialect.fields())[1].status == 404
    assert stored(dialect) is None


def test_progress_is_told_at_most_once_a_second(dialect):
    url, _ = dialect.create(TARGET)
    with dialect.wire() as wire:
        wire.begin("PATCH", url, dialect.fields(complete=True, offset=0), 250)
        begun = time.monotonic()
        for _ in range(25):
            wire.send(b"0123456789")
            time.sleep(0.1)
        interim, response = wire.final()
        seconds = time.monotonic() - begun
    assert dialect.complete(response) is True
    told = [r for r in interim if r.status == 104]
    if dialect.number < 5:
        assert told == []
        return
    assert 1 <= len(told) <= seconds + 1
    offsets = [int(r["Upload-Offset"]) for r in told]
    assert offsets == sorted(offsets) and all(0 < offset <= 250 for offset in offsets)
    for response in told:
        dialect.check_version(response)
        assert response.get("Location") is None


# The end


def test_a_finished_upload_keeps_answering(dialect, open_server):
    data = content(5000)
    url, _ = dialect.create(TARGET)
    first = dialect.append(url, 0, data, True)
    for _ in range(2):
        assert dialect.offset(url) == (5000, True)
        again = dialect.append(url, 5000, b"", True)
        assert again.status == first.status and again["ETag"] == first["ETag"]
        assert dialect.complete(again) is True
        open_server.restart()
    refused = dialect.append(url, 5000, b"more", True)
    if 6 <= dialect.number <= 8:
        assert refused.status == 400
        assert json.loads(refused.body)["type"].endswith("#completed-upload")
    else:
        assert 400 <= refused.status < 500
    assert stored(dialect) == data


def test_a_kill_while_the_object_is_put_together_loses_nothing(open_server, seed):
    generator = random.Random(seed)
    dialect = Dialect("9", open_server.address)
    outcomes = set()
    for number in range(12):
        target = f"/bucket/object{number}"
        data = generator.randbytes(24 << 20)
        url, _ = dialect.create(target, body=data)
        with dialect.wire() as wire:
            wire.begin("PATCH", url, dialect.fields(complete=True, offset=len(data)), 0)
            time.sleep(generator.uniform(0, 0.15))
            open_server.restart()
        _, response = dialect.ask("HEAD", url, dialect.fields())
        outcomes.add((response.status, response.get("Upload-Complete")))
        if response.status == 204 and not dialect.complete(response):
            assert int(response["Upload-Offset"]) == len(data)
            assert stored(dialect, target) in (None, data)
            assert dialect.complete(dialect.append(url, len(data), b"", True)) is True
        else:
            # Complete, or gone because the object was put into its place just before.
            assert response.status in (204, 404)
        assert stored(dialect, target) == data
    print(outcomes)


def test_the_target_keeps_its_old_content_until_the_end(dialect):
    with dialect.wire() as wire:
        wire.ask("PUT", TARGET, {}, b"old")
    url, _ = dialect.create(TARGET, body=b"new, but n")
    assert stored(dialect) == b"old"
    dialect.append(url, 10, b"ot yet", True)
    assert stored(dialect) == b"new, but not yet"


def test_conditions_hold_at_creation_and_at_the_end(dialect):
    url, response = dialect.create(TARGET, If_None_Match="*")
    assert response.status == 201
    with dialect.wire() as wire:
        _, plain = wire.ask("PUT", TARGET, {}, b"theirs")
    response = dialect.append(url, 0, b"ours", True)
    assert response.status == 412
    assert dialect.complete(response) is True
    assert stored(dialect) == b"theirs"
    _, response = dialect.create(TARGET, If_None_Match="*")
    assert response.status == 412
    _, response = dialect.create(TARGET, If_Match='"0123456789abcdef0123456789abcdef"')
    assert response.status == 412
    url, response = dialect.create(TARGET, If_Match=plain["ETag"])
    assert response.status == 201
    assert dialect.append(url, 0, b"ours", True).status in (200, 201)
    assert stored(dialect) == b"ours"


def test_a_cancelled_upload_is_gone(dialect, open_server):
    url, _ = dialect.create(TARGET, body=b"12345")
    response = dialect.delete(url)
    assert response.status == 204
    dialect.check_version(response)
    open_server.restart(signal.SIGTERM)
    for method in ("HEAD", "DELETE"):
        assert dialect.ask(method, url, dialect.fields())[1].status == 404
    assert dialect.append(url, 5, b"x", True).status == 404
    assert stored(dialect) is None


def test_an_unknown_upload_is_not_found(dialect):
    url, _ = dialect.create(TARGET)
    token = url.rsplit("/", 1)[1]
    other = url[: -len(token)] + ("0" * len(token) if token[0] != "0" else "1" * len(token))
    for wrong in (other, url + "x", url[:-1], url.upper(), url + "/", url[: -len(token)], url[: -len(token)] + "..%2f"):
        _, response = dialect.ask("HEAD", wrong, dialect.fields())
        assert response.status in (400, 403, 404), wrong


def test_upload_urls_cannot_be_guessed(open_server):
    dialect = Dialect("9", open_server.address)
    tokens = [dialect.create(TARGET)[0].rsplit("/", 1)[1] for _ in range(20)]
    assert len(set(tokens)) == 20
    assert all(len(token) * 4 >= 128 for token in tokens)
    # Nothing on disk names them.
    names = [name for _, folders, files in os.walk(open_server.root) for name in folders + files]
    assert not [name for name in names for token in tokens if token in name]


def test_other_methods_are_not_allowed(dialect):
    url, _ = dialect.create(TARGET)
    for method in ("PUT", "POST"):
        _, response = dialect.ask(method, url, dialect.fields(), b"x")
        assert response.status == 405 and "PATCH" in response["Allow"]
