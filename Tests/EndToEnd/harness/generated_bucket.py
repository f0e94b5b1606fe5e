# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A bucket of any number of objects that are not stored anywhere: its listings are made up when they are asked for."""

import hashlib
import re
import urllib.parse

from .made_up_bucket import HEAD, Answering, MadeUpBucket


class GeneratedBucket(MadeUpBucket):
    """`folders` folders `d00000/`, ... of `objects` empty objects each; nothing can be changed.

    With `metadata` listings carry it for who asks, as MinIO's do. `streams` objects `stream-0`, ... of `size` zeros lie beside
    the folders.
    """

    def __init__(self, folders, objects, metadata=True, streams=0, size=0):
        self.folders = folders
        self.objects = objects
        self.metadata = metadata
        self.streams = [f"stream-{index}" for index in range(streams)]
        self.size = size
        self.requests = {"GET": 0, "HEAD": 0}
        super().__init__(self._handler())

    def _handler(bucket):
        class Handler(Answering):
            def do_HEAD(self):
                bucket.requests["HEAD"] += 1
                path = urllib.parse.urlsplit(self.path).path.removeprefix("/bucket/")
                if path in bucket.streams:
                    self.zeros(path, 0, bucket.size)
                else:
                    self.answer(*((200, b"", [("ETag", tag(path))]) if path[-1:].isdigit() else (404, b"", [])))

            def do_GET(self):
                bucket.requests["GET"] += 1
                address = urllib.parse.urlsplit(self.path)
                path = address.path.removeprefix("/bucket/")
                if path in bucket.streams:
                    first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "bytes=0-")).groups()
                    return self.zeros(path, int(first), min(int(last or bucket.size) + 1, bucket.size))
                query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
                self.answer(200, bucket.page(query).encode(), [("Content-Type", "application/xml")])

            def zeros(self, path, start, end):
                status = 206 if "Range" in self.headers else 200
                fields = [("ETag", tag(path))]
                if status == 206:
                    fields.append(("Content-Range", f"bytes {start}-{end - 1}/{bucket.size}"))
                self.answer(status, bytes(end - start), fields)

        return Handler

    def page(self, query):
        """A page of ListObjectsV2 of the root or a folder, with the delimiter `/`."""
        size = min(int(query.get("max-keys", "1000")), 1000)
        start = int(query.get("continuation-token", "0"))
        prefix = query.get("prefix", "")
        count = self.objects if prefix else self.folders + len(self.streams)
        end = min(start + size, count)
        if not prefix:
            items = [f"<CommonPrefixes><Prefix>d{index:05}/</Prefix></CommonPrefixes>" for index in range(start, min(end, self.folders))]
            items += [contents(key, self.size) for key in self.streams[max(start - self.folders, 0):max(end - self.folders, 0)]]
        else:
            extra = self.metadata and query.get("metadata") == "true"
            items = [
                contents(f"{prefix}object-{index:08}", 0, metadata(index) if extra else "") for index in range(start, end)
            ]
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < count else ""
        truncated = "true" if more else "false"
        return (
            f"{HEAD}<Name>bucket</Name><Prefix>{prefix}</Prefix><KeyCount>{len(items)}</KeyCount>"
            f"<MaxKeys>{size}</MaxKeys><IsTruncated>{truncated}</IsTruncated>{more}{''.join(items)}</ListBucketResult>"
        )


def metadata(index):
    return (
        f"<UserMetadata><X-Amz-Meta-Mode>33188</X-Amz-Meta-Mode><X-Amz-Meta-Uid>1000</X-Amz-Meta-Uid>"
        f"<X-Amz-Meta-Gid>1000</X-Amz-Meta-Gid><X-Amz-Meta-Mtime>{1_600_000_000 + index}.123456789"
        "</X-Amz-Meta-Mtime></UserMetadata>"
    )


def contents(key, size, extra=""):
    return (
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{tag(key)}</ETag>"
        f"<Size>{size}</Size><StorageClass>STANDARD</StorageClass>{extra}</Contents>"
    )


def tag(key):
    return '"' + hashlib.md5(key.encode(), usedforsecurity=False).hexdigest() + '"'
