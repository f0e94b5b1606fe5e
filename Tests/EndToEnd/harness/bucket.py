# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` as a fixture, and an independent client for it."""

import json
import os
import signal
import urllib.request

import boto3
import botocore.config

from .processes import Child

ACCESS_KEY = "ENDTOENDKEY00001"
SECRET_KEY = "end-to-end-secret-not-a-real-one-0001"


def clean_environment():
    """The environment without anything that would steer a client of ours."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "MOORAGE_", "RCLONE_", "NETRC", "http_proxy", "https_proxy", "all_proxy"))
    }


def s3_client(endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY):
    """A boto3 client that retries nothing, so that what it sees is what the server said."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=botocore.config.Config(
            retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=60
        ),
    )


class BucketServer:
    """A running `moorage serve` over a folder; it may be killed and started again on the same port."""

    def __init__(self, binary, root):
        self.binary = binary
        self.root = root
        self.log = os.path.join(os.path.dirname(root), "server.log")
        self.past = {}
        os.makedirs(root, exist_ok=True)
        self._start("127.0.0.1:0")

    def _start(self, listen):
        command = [self.binary, "serve", self.root, "--listen", listen, "--access-key", ACCESS_KEY, "--foreground"]
        environment = clean_environment() | {"MOORAGE_SERVE_SECRET_KEY": SECRET_KEY}
        self.child = Child(command, ["listening on "], env=environment, log=self.log)
        self.url = self.child.ready_lines[0]
        self.address = self.url.removeprefix("http://").rstrip("/")
        # Making one costs more than most requests; connections to a server that was killed are of no use.
        self.shared_client = None

    def make_bucket(self, name):
        self.client().create_bucket(Bucket=name)

    def client(self):
        """The client that all share who ask here."""
        if self.shared_client is None:
            self.shared_client = s3_client(self.url)
        return self.shared_client

    def _counters(self):
        with urllib.request.urlopen(self.url + "/_moorage/stats", timeout=10) as response:
            return json.load(response)

    def stats(self):
        """The counters by name and method, summed over restarts."""
        now = self._counters()
        return {
            name: {
                method: values.get(method, 0) + self.past.get(name, {}).get(method, 0)
                for method in set(values) | set(self.past.get(name, {}))
            }
            for name, values in now.items()
        }

    def body_bytes(self):
        """The content bytes of all uploads that the server has read."""
        received = self.stats()["body_bytes_received"]
        return sum(received.get(method, 0) for method in ("PUT", "POST", "PATCH"))

    def requests(self, method):
        return self.stats()["requests"].get(method, 0)

    def kill(self):
        """SIGKILL; ``restart`` brings it back."""
        self.past = self.stats()
        self.child.end(signal.SIGKILL)

    def restart(self):
        self._start(self.address)

    def stop(self):
        self.child.end()
