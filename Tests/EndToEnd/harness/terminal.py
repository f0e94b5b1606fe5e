# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A program on a terminal of its own, and what a person would see there."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading

import pyte

from .processes import wait_until


class Terminal:
    """Runs a command on a pseudo terminal that pyte, an independent emulator, draws."""

    def __init__(self, command, env, width=100, height=30):
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.lock = threading.Lock()
        self.master, slave = pty.openpty()
        self._set_size(width, height)
        env = env | {"TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _set_size(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _read(self):
        while True:
            ready, _, _ = select.select([self.master], [], [], 0.5)
            if not ready:
                if self.process.poll() is not None:
                    return
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            with self.lock:
                self.raw += data
                self.stream.feed(data)

    def resize(self, width, height):
        with self.lock:
            self.screen.resize(height, width)
            self._set_size(width, height)

    @property
    def lines(self):
        with self.lock:
            return [line.rstrip() for line in self.screen.display]

    @property
    def text(self):
        return "\n".join(self.lines).rstrip() + "\n"

    def wait_for(self, *words, timeout=30):
        """Waits until all words can be seen at once; returns the text."""
        wait_until(lambda: all(word in self.text for word in words), timeout, f"{words} on the terminal")
        return self.text

    def press(self, keys):
        os.write(self.master, keys)

    def end(self, keys=b"\x03", timeout=20):
        """Presses Ctrl-C and returns the exit status."""
        self.press(keys)
        status = self.process.wait(timeout)
        self.reader.join(5)
        return status

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(10)
        os.close(self.master)


def on_a_terminal(instance, *words, **options):
    """The exit status of a command whose standard output is a terminal, and what that shows."""
    terminal, other = pty.openpty()
    process = subprocess.Popen([instance.binary, *words], env=instance.environment, stdout=other, **options)
    os.close(other)
    text = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 4096):
            text += chunk
    os.close(terminal)
    return process.wait(30), text
