# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Files of the machine that are others for one instance, in a mount namespace of its own (unshare(1), nsenter(1))."""

import os
import subprocess

from .trees import write_file


def give_own_files(instance, files, folder, stack, *, inside=()):
    """Has all that the instance runs see `files` (a path of the machine to what stands there instead).

    `inside` is a command that enters further namespaces, nsenter by default.
    """
    mounts = [f"mount --bind {instead} {path}" for path, instead in files.items()]
    script = " && ".join([*mounts, "echo ready", "exec sleep 600"])
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    stack.callback(holder.wait)
    stack.callback(holder.kill)
    assert holder.stdout.readline() == b"ready\n"
    program = instance.binary
    instance.inside = [*(inside or ["nsenter"]), f"--mount=/proc/{holder.pid}/ns/mnt"]
    instance.binary = os.path.join(folder, "moorage-elsewhere")
    write_file(instance.binary, f'#!/bin/sh\nexec {" ".join(instance.inside)} {program} "$@"\n'.encode())
    os.chmod(instance.binary, 0o755)
