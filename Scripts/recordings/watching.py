# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Prints the screens of `moorage status --watch`, as an independent terminal emulator draws them, with what was done between."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from harness.processes import wait_until
from harness.terminal import Terminal

MIB = 1 << 20


def main(binary):
    binary = os.path.abspath(binary)
    with tempfile.TemporaryDirectory(prefix="moorage-recording-") as folder:
        Recording(binary, folder).run()


class Recording:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        for part in ("served/photos", "state", "cache", "run", "home", "photos"):
            os.makedirs(os.path.join(folder, part), mode=0o700)
        self.mount = os.path.join(folder, "photos")
        self.config = os.path.join(folder, "config")
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": os.path.join(folder, "home"), "MOORAGE_CONFIG": self.config,
            "MOORAGE_STATE_DIR": os.path.join(folder, "state"), "MOORAGE_CACHE_DIR": os.path.join(folder, "cache"),
            "MOORAGE_RUNTIME_DIR": os.path.join(folder, "run"),
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder}/no-bus", "MOORAGE_SYSFS": folder + "/no-sysfs",
            "MOORAGE_PROCFS": folder + "/no-procfs", "NO_COLOR": "1",
        }
        with open(self.config, "w") as file:
            file.write("[policy]\nmax_rate = 2M\n[path *:*.raw]\nwindow = 01:00-05:00\n")

    def say(self, text):
        print(text.replace(self.folder, "/home/me"), flush=True)

    def do(self, *words):
        self.say("$ moorage " + " ".join(words))
        done = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, timeout=60)
        if done.stderr:
            self.say(done.stderr.rstrip())

    def show(self, watch, title, *patterns):
        """Waits until all patterns are found on one screen, and prints that one."""

        def look():
            text = watch.text
            return text if all(re.search(pattern, text) for pattern in patterns) else None

        text = wait_until(look, 60, f"{patterns} on the terminal")
        self.say(f"\n-- {title}\n")
        self.say("\n".join("   " + line for line in text.rstrip().split("\n")))
        self.say("")

    def write(self, name, size):
        self.say(f"$ cp {name} {self.mount}/")
        with open(os.path.join(self.mount, name), "wb") as file:
            file.write(os.urandom(size))

    def run(self):
        environment = self.environment | {"MOORAGE_SERVE_SECRET_KEY": "secret"}
        server = subprocess.Popen([self.binary, "serve", self.folder + "/served", "--listen", "127.0.0.1:0"],
                                  env=environment, stdout=subprocess.PIPE, text=True)
        try:
            endpoint = server.stdout.readline().split()[-1]
            self.watch(endpoint)
        finally:
            subprocess.run([self.binary, "unmount", self.mount], env=self.environment, capture_output=True, timeout=60)
            self.end_flusher()
            server.terminate()
            server.wait(10)

    def end_flusher(self):
        status = subprocess.run([self.binary, "status", "--json"], env=self.environment, capture_output=True, timeout=60)
        pid = json.loads(status.stdout)["flusher"]["pid"]
        if pid:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, "the end of the flusher")

    def watch(self, endpoint):
        self.do("mount", "s3://photos", self.mount, "-o", f"endpoint={endpoint},anonymous")
        self.say("$ moorage status --watch    (in another terminal)")
        watch = Terminal([self.binary, "status", "--watch"], self.environment, width=100, height=20)
        try:
            self.show(watch, "nothing to do", "nothing pending")
            for name, size in [("film.mkv", 40 * MIB), ("night.raw", 12 * MIB), ("notes.txt", 4000)]:
                self.write(name, size)
            wait_until(lambda: " left" in watch.text, 60, "a rate")
            time.sleep(4)
            self.show(watch, "max_rate is 2 MiB a second, *.raw waits for the night", r"film\.mkv +\[#.*/s", r"night\.raw .* window")
            self.do("policy", "set", "metered=yes", "--for", "2h")
            self.show(watch, "the network costs: what runs has stopped", "expensive")
            self.do("policy", "unset", "metered")
            self.show(watch, "and goes on where it was", r"film\.mkv +\[#")
            self.do("uploads", "now", self.mount + "/night.raw")
            # Rates are those of some seconds.
            time.sleep(2)
            self.show(watch, "somebody waits for it: no window holds it", r"night\.raw +\[#")
            self.do("policy", "set", "max_rate=off")
            self.do("flush")
            self.show(watch, "all is remote", "nothing pending")
            watch.end()
        finally:
            watch.stop()


main(sys.argv[1])
