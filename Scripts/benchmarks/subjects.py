# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""What is measured: the server, Moorage, its peers and the limits, each as something that can be started and stopped."""

import contextlib
import glob
import json
import os
import signal
import socket
import subprocess
import time

import boto3
import botocore.config

MIB = 1 << 20
KEY, SECRET = "bench", "bench-secret-key"


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_until(condition, limit=120, pause=0.01):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited too long")
        time.sleep(pause)


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def drop_caches():
    """Forgets the kernel's pages where we may; at a small scale, whose figures tell nothing, others on the machine keep theirs."""
    if float(os.environ.get("BENCH_SCALE", "1")) < 1:
        return
    os.sync()
    with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def claim_memory(folder, size):
    """Has the host of a virtual machine give it memory that is then free, by writing a file in a folder and removing it.

    A machine that reports free pages loses them within seconds, and who first uses one again waits for it: three times as
    long as writing to it takes. The kernel's memory for files is what the measured work takes, and it takes what was freed last.
    """
    path = os.path.join(folder, "claim")
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // MIB):
            file.write(bytes(MIB))
    os.unlink(path)


def read_through(path):
    buffer = bytearray(MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def cpu_seconds(pid):
    """The processor time a process has used so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid):
    """The most memory a process had resident, in MiB, without the pages of files."""
    with open(f"/proc/{pid}/status") as file:
        values = dict(line.split(":", 1) for line in file)
    return int(values["VmHWM"].split()[0]) / 1024


def serving(point):
    """The process that serves a mount, by its command line."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and point.encode() in open(f"/proc/{name}/cmdline", "rb").read().split(b"\0"):
                return int(name)
    raise LookupError(point)


class Server:
    def __init__(self, binary, work):
        self.root = os.path.join(work, "served")
        os.makedirs(os.path.join(self.root, "bench"))
        environment = os.environ | {"MOORAGE_SERVE_SECRET_KEY": SECRET}
        command = [binary, "serve", self.root, "--listen", "127.0.0.1:0", "--access-key", KEY, "--foreground"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.client = boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )

    def count(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
        return sum(1 for page in pages for item in page.get("Contents", []) if not item["Key"].endswith("/"))

    def size(self, key):
        with contextlib.suppress(self.client.exceptions.ClientError):
            return self.client.head_object(Bucket="bench", Key=key)["ContentLength"]
        return -1

    def empty(self, prefix):
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix):
            keys = [{"Key": item["Key"]} for item in page.get("Contents", [])]
            if keys:
                self.client.delete_objects(Bucket="bench", Delete={"Objects": keys})

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Moorage:
    name = "Moorage"

    def __init__(self, arguments, server, folder, url=None, bucket="bench", options=(), cache=None):
        self.binary = arguments.binary
        self.options = options
        self.url = url or server.url
        self.bucket = bucket
        self.folder = folder
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)
        self.environment = os.environ | {
            "HOME": folder, "MOORAGE_CONFIG": folder + "/config", "MOORAGE_STATE_DIR": folder + "/state",
            "MOORAGE_CACHE_DIR": cache or folder + "/cache", "MOORAGE_RUNTIME_DIR": folder + "/run",
            # The battery and the network of this machine hold nothing.
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder}/no-bus", "MOORAGE_SYSFS": folder + "/no-sysfs",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        }

    def start(self):
        words = ",".join([f"endpoint={self.url}", "quiet_period=0", *self.options])
        self.run("mount", f"s3://{self.bucket}", self.point, "-o", words)

    def run(self, *words):
        return run([self.binary, *words], env=self.environment)

    def pid(self):
        return serving(self.point)

    def catalog_bytes(self):
        files = glob.glob(os.path.join(self.folder, "cache", "volumes", "*", "catalog.sqlite*"))
        return sum(os.path.getsize(path) for path in files)

    def stop(self):
        self.run("flush")
        self.run("unmount", self.point)
        status = json.loads(self.run("status", "--json").stdout)
        if status["flusher"]["running"]:
            os.kill(status["flusher"]["pid"], signal.SIGTERM)


class Rclone:
    name = "rclone mount"

    def __init__(self, arguments, server, folder, url=None):
        self.folder = folder
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)
        self.command = [
            arguments.rclone, "mount", "bench:bench", self.point, "--vfs-cache-mode", "full", "--vfs-write-back", "0s",
            "--cache-dir", folder + "/cache", "--config", folder + "/rclone.conf",
        ]
        with open(folder + "/rclone.conf", "w") as file:
            file.write(
                f"[bench]\ntype = s3\nprovider = Other\nendpoint = {url or server.url}\n"
                f"access_key_id = {KEY}\nsecret_access_key = {SECRET}\n"
            )

    def start(self):
        with open(os.path.join(self.folder, "log"), "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until(lambda: os.path.ismount(self.point) or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise RuntimeError(open(os.path.join(self.folder, "log")).read())

    def pid(self):
        return self.process.pid

    def stop(self):
        run(["fusermount3", "-u", self.point])
        self.process.wait()


class Passthrough:
    name = "passthrough_ll"

    def __init__(self, arguments, disk, folder, cache="auto"):
        self.program = arguments.passthrough
        self.cache = cache
        self.source = disk
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)

    def start(self):
        run([self.program, "-o", f"source={self.source},cache={self.cache},timeout=1", self.point])

    def pid(self):
        return serving(self.point)

    def stop(self):
        run(["fusermount3", "-u", self.point])


class Disk:
    """The folder itself, as if it were a mount."""

    name = "local disk"

    def __init__(self, folder):
        self.point = folder

    def start(self):
        pass

    def stop(self):
        pass


class LoopDisk:
    """A disk with XFS on a file, mounted in a folder of its own; as root only."""

    def __init__(self, folder, size):
        os.makedirs(folder)
        self.image, self.point = os.path.join(folder, "disk.img"), os.path.join(folder, "disk")
        os.makedirs(self.point)
        run(["truncate", "-s", str(size), self.image])
        run(["mkfs.xfs", "-q", self.image])
        run(["mount", "-o", "loop", self.image, self.point])

    def stop(self):
        run(["umount", self.point])
        os.unlink(self.image)


class S3fs:
    name = "s3fs"

    def __init__(self, arguments, server, folder, url=None):
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)
        password = os.path.join(folder, "password")
        with open(os.open(password, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(f"{KEY}:{SECRET}")
        self.options = f"url={url or server.url},use_path_request_style,passwd_file={password}"

    def start(self):
        run(["s3fs", "bench", self.point, "-o", self.options])

    def pid(self):
        return serving(self.point)

    def stop(self):
        run(["fusermount3", "-u", self.point])


class Proxy:
    """A line to the server that is as long and as narrow as wanted."""

    def __init__(self, program, server, work):
        upstream = server.url.removeprefix("http://")
        with open(os.path.join(work, "proxy.log"), "a") as log:
            self.process = subprocess.Popen([program, "--upstream", upstream], stdout=subprocess.PIPE, stderr=log, text=True)
        address = self.process.stdout.readline().split()[-1]
        host, port = self.process.stdout.readline().split()[-1].rsplit(":", 1)
        self.url = f"http://{address}"
        self.connection = socket.create_connection((host, int(port)), timeout=60)
        self.lines = self.connection.makefile("rw", encoding="utf-8", newline="\n")

    def command(self, line):
        self.lines.write(line + "\n")
        self.lines.flush()
        answer = self.lines.readline().rstrip("\n")
        if not answer.startswith("ok"):
            raise RuntimeError(f"{line}: {answer}")
        return answer[3:]

    def limit(self, milliseconds, megabits):
        """A delay before each request, and a rate of everything that comes from the server (None: no limit)."""
        rate = f" down={round(megabits * 1e6 / 8)}" if megabits else ""
        self.command(f"limit latency={milliseconds}{rate}")

    def response_bytes(self):
        return json.loads(self.command("stats"))["response_bytes"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.terminate()
        self.process.wait()
