# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Cases of POSIX that run in two folders, in a mount and on the local disk, whose results must be the same."""

import contextlib
import ctypes
import errno
import itertools
import os
import pickle
import shutil
import stat
import tempfile
import threading
import time

from .bucket import BucketServer
from .instance import Instance

# Two users who share no group, and a group that the first one is in besides its own.
USER, OTHER, EXTRA_GROUP = 65533, 65532, 65531
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2


class Volume:
    """A mount for many cases, with a folder beside it on the local disk."""

    def __init__(self, binary, folder, stack):
        self.server = BucketServer(binary, os.path.join(folder, "served"))
        stack.callback(self.server.stop)
        self.server.make_bucket("bucket")
        self.instance = Instance(binary, folder, self.server.url)
        stack.callback(self.instance.abandon)
        self.options = ("allow_other",) if os.geteuid() == 0 else ()
        self.mount = self.instance.mount("s3://bucket", None, *self.options)
        self.local = os.path.join(folder, "local")
        os.mkdir(self.local)
        for path in (folder, self.instance.folder, self.instance.directory("mnt"), self.mount.path, self.local):
            os.chmod(path, 0o755)
        self.numbers = itertools.count()

    def compare(self, case):
        """Runs a case in a new folder on either side; the same must come of it."""
        name = f"{case.__name__}-{next(self.numbers)}"
        results = []
        for base in (self.mount.path, self.local):
            folder = os.path.join(base, name)
            os.mkdir(folder)
            results.append(at_home(folder, case))
        assert results[1], "the case tells nothing"
        different = list(differences(*results))
        assert not different, "\n".join(f"the mount has {one!r}, the local disk {two!r}" for one, two in different)


@contextlib.contextmanager
def volume(binary, limit=120):
    """A volume for all cases of a file; everything ends after `limit` seconds, so that no case hangs the run."""
    folder = tempfile.mkdtemp(prefix="moorage-posix-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        made = Volume(binary, folder, stack)
        watchdog = threading.Timer(limit, made.instance.abandon)
        watchdog.daemon = True
        watchdog.start()
        stack.callback(watchdog.cancel)
        yield made
        assert made.instance.overlooked() == []


def differences(one, two):
    """The innermost parts of two results that are not the same."""
    if one == two:
        return
    if isinstance(one, (list, tuple)) and type(one) is type(two) and len(one) == len(two) and not is_plain(one):
        for parts in zip(one, two):
            yield from differences(*parts)
    else:
        yield one, two


def is_plain(parts):
    """Whether a result has no others within: it is told as a whole."""
    return not any(isinstance(part, (list, tuple)) for part in parts)


def at_home(folder, case):
    """Runs a case with its folder as the working directory and the usual umask."""
    before, mask = os.getcwd(), os.umask(0o022)
    os.chdir(folder)
    try:
        return case()
    finally:
        os.chdir(before)
        os.umask(mask)


def attempt(call, *arguments, **options):
    """What a call returns, or the name of its error."""
    try:
        result = call(*arguments, **options)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok" if result is None else result


def attempt_open(path, flags, mode=0o644, *arguments):
    """`ok`, or the name of the error of open(2)."""
    descriptor = attempt(os.open, path, flags | os.O_CLOEXEC, mode, *arguments)
    if not isinstance(descriptor, int):
        return descriptor
    os.close(descriptor)
    return "ok"


def make(kind, path, mode=0o644):
    """Makes a file of any kind but a device."""
    if kind == "file":
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    elif kind == "directory":
        os.mkdir(path, mode)
    elif kind == "symlink":
        os.symlink("nowhere", path)
    elif kind == "fifo":
        os.mkfifo(path, mode)
    elif kind == "socket":
        os.mknod(path, mode | stat.S_IFSOCK)
    else:
        raise ValueError(kind)


def write(path, text=b"content"):
    with open(path, "wb") as file:
        file.write(text)


def exchange(old, new):
    """renameat2(2) with RENAME_EXCHANGE."""
    if LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def look(path):
    """What lstat(2) tells that is the same everywhere: neither inode number nor times nor, of a folder, links and size."""
    found = os.lstat(path)
    is_folder = stat.S_ISDIR(found.st_mode)
    return (
        oct(found.st_mode), found.st_uid, found.st_gid, found.st_rdev, None if is_folder else found.st_nlink,
        None if is_folder else found.st_size,
    )


def changed_times(paths, action):
    """Which times of which paths an action changes; a path may be a descriptor."""
    before = [stamps(path) for path in paths]
    # Above the resolution of the kernel's clock of the local disk.
    time.sleep(0.015)
    result = action()
    after = [stamps(path) for path in paths]
    changes = [[name for name in one if one[name] != two[name]] for one, two in zip(before, after)]
    backwards = [name for one, two in zip(before, after) for name in one if one["ctime"] > two["ctime"]]
    return result, changes, backwards


def stamps(path):
    found = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    return {"mtime": found.st_mtime_ns, "ctime": found.st_ctime_ns}


def as_user(uid, body, groups=()):
    """What a function returns that runs in a process of this user; its working directory is the caller's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            os.close(reader)
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(body(), pipe)
            status = 0
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the process of the other user failed"
    return pickle.loads(answer)
