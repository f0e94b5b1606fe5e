# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Commands that print lines until they are interrupted."""

import json
import subprocess
import threading


class Lines:
    """The lines that a command prints, as they come."""

    def __init__(self, instance, *words):
        command = [instance.binary, *words]
        self.process = subprocess.Popen(command, env=instance.environment, stdout=subprocess.PIPE, text=True)
        self.lines = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def documents(self):
        return [json.loads(line) for line in list(self.lines)]

    def stop(self):
        self.process.kill()
        self.process.wait(10)
