# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Seeded files and trees, and comparing them."""

import hashlib
import os
import random


def random_bytes(seed, size):
    """The same `size` bytes for the same seed."""
    return random.Random(seed).randbytes(size)


def write_file(path, data, synchronize=False):
    with open(path, "wb") as file:
        file.write(data)
        if synchronize:
            file.flush()
            os.fsync(file.fileno())


def write_random_file(path, size, seed):
    """Writes a big file in pieces and returns its SHA-256."""
    generator = random.Random(seed)
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        while size > 0:
            piece = generator.randbytes(min(size, 1 << 20))
            file.write(piece)
            digest.update(piece)
            size -= len(piece)
    return digest.hexdigest()


def sha256_of_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def sha256_of_object(client, bucket, key):
    digest = hashlib.sha256()
    for piece in client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def make_tree(root, count, size, seed, per_folder=100):
    """Makes `count` files of about `size` bytes and returns their contents by relative path."""
    generator = random.Random(seed)
    contents = {}
    for number in range(count):
        name = f"d{number // per_folder:03}/f{number:05}"
        os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
        contents[name] = generator.randbytes(size)
        write_file(os.path.join(root, name), contents[name])
    return contents


def fail(problem):
    raise problem


def fingerprint(root, attributes=False):
    """Every file, folder and link under `root` with its content, and mode and whole mtime when asked for."""
    found = {}
    for folder, folders, files in os.walk(root, onerror=fail):
        for name in folders + files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            status = os.lstat(path)
            if os.path.islink(path):
                entry = ("link", os.readlink(path))
            elif os.path.isdir(path):
                entry = ("folder",)
            else:
                entry = ("file", status.st_size, sha256_of_file(path))
            if attributes and entry[0] == "file":
                entry += (oct(status.st_mode & 0o7777), int(status.st_mtime))
            found[relative] = entry
    return found


def all_keys(client, bucket, prefix=""):
    """All keys of a bucket with their sizes."""
    keys = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for item in page.get("Contents", []):
            keys[item["Key"]] = item["Size"]
    return keys


def read_here_and_there(mount, contents, seed, count=40, length=50_000):
    """Reads that the kernel's memory does not answer."""
    choice = random.Random(seed)
    for _ in range(count):
        name = choice.choice(sorted(contents))
        offset = choice.randrange(len(contents[name]))
        descriptor = os.open(mount / name, os.O_RDONLY | os.O_DIRECT)
        try:
            assert os.pread(descriptor, length, offset) == contents[name][offset:offset + length], name
        finally:
            os.close(descriptor)
