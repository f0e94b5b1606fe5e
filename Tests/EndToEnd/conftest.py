# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Fixtures of the end-to-end tests. Each test has servers, folders and mounts of its own in a temporary folder.

Environment: MOORAGE_BIN (the product; the fault proxy is looked for beside it, or in MOORAGE_FAULT_PROXY),
MOORAGE_TEST_SEED (a number; otherwise random, and printed), MOORAGE_TEST_SCALE (multiplies the repetitions).
"""

import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from harness.attended import CLOCK  # noqa: E402
from harness.bucket import BucketServer  # noqa: E402
from harness.instance import Instance  # noqa: E402
from harness.machine import system_bus  # noqa: E402
from harness.network import FarServer, Network, missing  # noqa: E402
from harness.open_server import OpenServer  # noqa: E402
from harness.proxy import FaultProxy  # noqa: E402
from harness.resumable import VERSIONS, Dialect  # noqa: E402
from harness.settings import BINARY, PROXY  # noqa: E402

# What takes longest, most of it first: begun last, one of them would keep a run that has nothing else left.
LONG = (
    "test_a_mount_is_what_the_model_says", "test_a_second_rsync_transfers_nothing", "test_attempts_get_fewer",
    "test_ten_thousand_small_files", "test_the_flusher_lives_as_systemd_wants",
    "test_volumes_of_a_server_that_fails_ask_once_for_all", "test_a_foreground_program_keeps_its_rate",
    "test_no_read_mixes_versions", "test_what_has_time_waits_for_a_busy_and_hot_machine",
    "test_reading_ahead_and_pins_spare_a_network_that_costs", "test_on_a_slow_line_bytes_stop_in_time_too",
    "test_a_gibibyte_is_edited_and_appended_to_for_few_bytes", "test_volumes_with_one_server_ask_once_for_all",
    "test_a_window_that_closes_stops_what_is_under_way", "test_a_timetable_switches_by_the_clock_on_the_wall",
    "test_fio_finds_every_block_as_it_wrote_it",
    "test_cuts_and_kills_during_a_big_upload_cost_little", "test_a_kill_while_the_object_is_put_together_loses_nothing",
    "test_attributes_come_with_the_listing", "test_stress_ng_finds_what_is_expected",
    "test_bonnie_makes_finds_and_removes_its_files", "test_killed_at_any_step", "test_a_head_that_never_ends_is_cut",
    "test_what_fsync_acknowledged_survives_power_loss",
    "test_cutting_a_file_at_open_leaves_no_hole_before_what_others_append", "test_a_bucket_of_many_objects_takes_little",
    "test_parts_side_by_side_are_lost_one_by_one", "test_one_error_at_any_step",
    "test_one_that_cannot_be_reached_is_named", "test_a_full_or_read_only_state_folder_stops_no_status",
    "test_hundreds_who_wait_do_not_stop_the_others",
    "test_uploads_whose_names_are_lost_are_ended_and_those_of_others_are_not",
    "test_a_network_that_swallows_everything_does_not_stop_the_user", "test_something_else_where_the_folder_was",
    "test_a_full_disk_is_read_past_until_there_is_room", "test_room_that_is_to_stay_free_stays_free",
    "test_a_remote_that_swallows_everything_hangs_neither_ls_nor_df", "test_work_goes_on_without_the_network",
    "test_a_rename_does_not_overwrite_a_target_it_never_saw",
)


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): how long the test may take before its processes are ended")
    # A run that a shell has put into the background ignores it, and all that it starts would, too.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    if not os.path.exists(BINARY):
        raise pytest.UsageError(f"there is no {BINARY}: build it, or set MOORAGE_BIN")
    items[:] = longest_first(items)


def longest_first(items):
    """Long tests, each with a short one behind it: a worker is given two tests to begin with."""
    rank = {name: number for number, name in enumerate(LONG)}
    long = sorted((item for item in items if item.originalname in rank), key=lambda item: rank[item.originalname])
    short = [item for item in items if item.originalname not in rank]
    pairs = [item for pair in zip(long, short) for item in pair]
    return pairs + long[len(short):] + short[len(long):]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds what the product's own logs say to a failure."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        for name in ("instance", "folder"):
            folder = item.funcargs.get(name)
            folder = getattr(folder, "folder", folder)
            if folder:
                report.sections.append(("logs", collect_logs(folder)))
                break


def collect_logs(folder):
    parts = []
    for base, _, files in os.walk(folder):
        if "/mnt" in base:
            continue
        for name in files:
            if name.endswith(".log"):
                with contextlib.suppress(OSError), open(os.path.join(base, name), errors="replace") as file:
                    parts.append(f"== {os.path.join(base, name)}\n{file.read()[-3000:]}")
    return "\n".join(parts)


@pytest.fixture(scope="session")
def binary():
    return BINARY


@pytest.fixture
def seed():
    """The seed of the test's random choices."""
    value = int(os.environ.get("MOORAGE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"MOORAGE_TEST_SEED={value}")
    return value


def mounts_below(path):
    """The mount points below a folder: deleting would go through them."""
    with open("/proc/self/mountinfo") as file:
        return [point for point in (line.split()[4] for line in file) if point.startswith(path + "/")]


@pytest.fixture
def folder():
    """A temporary folder, also in /tmp when the tests run elsewhere: unix sockets need short paths."""
    path = tempfile.mkdtemp(prefix="moorage-e2e-", dir=os.environ.get("MOORAGE_TEST_TMPDIR"))
    yield path
    for _ in range(50):
        if not mounts_below(path):
            shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(path):
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} cannot be removed; mounted below it: {mounts_below(path)}")


@pytest.fixture
def stack(request):
    """What ends at the end of the test, last in, first out."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def make_instance(request, folder, stack, binary):
    """Makes instances that a watchdog ends, so that a mount that hangs cannot stop the run."""
    instances = []
    marker = request.node.get_closest_marker("limit")
    limit = marker.args[0] if marker else 120

    end = CLOCK.now() + limit
    has_ended = threading.Event()

    def watch():
        while not CLOCK.is_over(end):
            if has_ended.wait(max(0.1, end - CLOCK.now())):
                return
        for instance in instances:
            with contextlib.suppress(Exception):
                instance.abandon()
        # A test may wait for something of its own that never comes.
        if not has_ended.wait(60):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGALRM)

    def fail_late(number, frame):
        if not has_ended.is_set():
            raise AssertionError("the test did not end in time, nor when its processes had")

    signal.signal(signal.SIGALRM, fail_late)
    threading.Thread(target=watch, name="watchdog", daemon=True).start()
    stack.callback(has_ended.set)

    def make(endpoint, name=None):
        instance = Instance(binary, folder, endpoint, name or f"i{len(instances)}")
        instances.append(instance)
        stack.callback(instance.abandon)
        return instance

    return make


@pytest.fixture
def server(folder, stack, binary):
    """`moorage serve` with the empty bucket `bucket`."""
    server = BucketServer(binary, os.path.join(folder, "served"))
    stack.callback(server.stop)
    server.make_bucket("bucket")
    return server


@pytest.fixture
def client(server):
    """A boto3 client of the server, past the proxy."""
    return server.client()


@pytest.fixture
def proxy(folder, stack, server):
    """The fault proxy before the server."""
    proxy = FaultProxy(PROXY, server.address, folder)
    stack.callback(proxy.stop)
    return proxy


@pytest.fixture
def make_proxy(folder, stack):
    """Makes fault proxies before other servers."""

    def make(upstream):
        proxy = FaultProxy(PROXY, upstream, folder)
        stack.callback(proxy.stop)
        return proxy

    return make


@pytest.fixture
def instance(make_instance, proxy):
    """An instance whose endpoint is the proxy; its flusher must not have needed its safety net."""
    instance = make_instance(proxy.url, "instance")
    yield instance
    assert instance.overlooked() == []


@pytest.fixture
def bus(folder, stack, instance):
    return system_bus(folder, stack, instance)


@pytest.fixture
def mount(instance):
    """The bucket, mounted through the proxy."""
    return instance.mount("s3://bucket")


@pytest.fixture
def local(folder):
    """A folder on the local disk."""
    path = os.path.join(folder, "local")
    os.makedirs(path)
    return path


@pytest.fixture
def network(folder, stack):
    """Two machines with a cable between them."""
    if missing():
        pytest.skip(missing())
    return Network(folder, stack)


@pytest.fixture
def far_server(folder, stack, binary, network):
    """`moorage serve` at the other end of the cable, with the empty bucket `bucket`."""
    server = FarServer(binary, os.path.join(folder, "served"), network)
    stack.callback(server.stop)
    server.make_bucket("bucket")
    return server


@pytest.fixture
def far_instance(make_instance, far_server, network):
    """An instance on the machine whose endpoint is the far server."""
    instance = make_instance(far_server.url, "instance")
    instance.binary = network.binary("machine", instance.binary)
    yield instance
    assert instance.overlooked() == []


@pytest.fixture
def open_server(binary, folder, stack):
    server = OpenServer(binary, folder)
    stack.callback(server.stop)
    return server


@pytest.fixture(params=VERSIONS)
def dialect(request, open_server):
    return Dialect(request.param, open_server.address)
