# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Starting, waiting for and ending processes, with a limit on everything."""

import os
import signal
import socket
import subprocess
import threading
import time

from .attended import CLOCK


class Failure(AssertionError):
    """A command or a wait that did not do what the test needs."""


def wait_until(condition, timeout=30, what="the condition", interval=0.05):
    """Calls `condition` until it is true and returns its value; fails after `timeout` seconds that the machine ran.

    From ten seconds on it waits three times as long: what is still to come is only late, as the machine has others to serve.
    """
    timeout *= 3 if timeout >= 10 else 1
    deadline = CLOCK.now() + timeout
    while True:
        is_over = CLOCK.is_over(deadline)
        value = condition()
        if value:
            return value
        if is_over:
            raise Failure(f"waited {timeout} s in vain for {what}; last value: {value!r}")
        time.sleep(interval)


def run(command, timeout=60, check=True, **options):
    """Runs a command with its output captured as text; fails on an exit status other than 0 when `check`.

    It may take `timeout` seconds in which the machine runs.
    """
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdin", subprocess.DEVNULL)
    process = subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **options)
    try:
        output, errors = communicate(process, timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            output, errors = process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            output, errors = "", "(did not even die of SIGKILL)"
        raise Failure(f"{command} did not end within {timeout} s\n{output or ''}\n{errors or ''}") from None
    result = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check and process.returncode != 0:
        raise Failure(f"{command} ended with {process.returncode}\nstdout: {output}\nstderr: {errors}")
    return result


def communicate(process, timeout):
    """What a process printed until its end; subprocess.TimeoutExpired when that does not come in time."""
    deadline = CLOCK.now() + timeout
    while True:
        try:
            return process.communicate(timeout=max(0.1, deadline - CLOCK.now()))
        except subprocess.TimeoutExpired:
            if CLOCK.is_over(deadline):
                raise


def shell(script, cwd=None, timeout=60, check=True, env=None):
    """Runs a bash script that stops at its first error."""
    return run(["bash", "-euo", "pipefail", "-c", script], cwd=cwd, timeout=timeout, check=check, env=env)


def listens(path):
    """Whether somebody listens at a socket in the file system, which is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def is_alive(pid):
    """Whether a process exists with any thread that still holds its files, locks and mounts."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        # A process whose first thread has ended lives on in the others.
        return state not in ("Z", "X") or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [word.decode(errors="replace") for word in file.read().split(b"\0")[:-1]]
    except (FileNotFoundError, ProcessLookupError):
        return []


def find_processes(*words):
    """The pids of processes whose command line has all `words`, each as a whole argument."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            arguments = command_line(int(name))
            if arguments and all(word in arguments for word in words):
                found.append(int(name))
    return found


def kill(pid, number=signal.SIGKILL, timeout=10):
    """Sends a signal to one process and waits for its end."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    wait_until(lambda: not is_alive(pid), timeout, f"the end of process {pid}")


class Child:
    """A long-running child whose first output lines say that it is ready."""

    def __init__(self, command, ready, env=None, log=None, timeout=20):
        self.log_path = log
        output = open(log, "ab") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, env=env, start_new_session=True
        )
        if log:
            output.close()
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ready_lines = [self._expect(prefix, timeout) for prefix in ready]

    def _read(self):
        for line in self.process.stdout:
            if len(self.lines) < 1000:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def _expect(self, prefix, timeout):
        def look():
            found = [line for line in list(self.lines) if line.startswith(prefix)]
            if not found and self.process.poll() is not None:
                raise Failure(f"{self.process.args} ended with {self.process.returncode}: {self.errors()}")
            return found and found[0][len(prefix):].strip()

        try:
            return wait_until(look, timeout, f"{prefix!r} of {self.process.args[0]}")
        except Failure:
            self.end()
            raise

    def errors(self):
        if not self.log_path:
            return ""
        with open(self.log_path, errors="replace") as file:
            return file.read()[-4000:]

    @property
    def pid(self):
        return self.process.pid

    def end(self, number=signal.SIGTERM, timeout=10):
        """Ends the child, by SIGKILL when it does not end by itself."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
