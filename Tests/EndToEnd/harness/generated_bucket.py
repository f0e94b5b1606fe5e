# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A bucket of any number of objects that are not stored anywhere: its listings are made up when they are asked for."""

import hashlib
import urllib.parse

from .made_up_bucket import HEAD, Answering, MadeUpBucket


class GeneratedBucket(MadeUpBucket):
    """`folders` folders `d00000/`, ... of `objects` empty objects each; nothing can be changed.

    With `metadata` listings carry it for who asks, as MinIO's do.
    """

    def __init__(self, folders, objects, metadata=True):
        self.folders = folders
        self.objects = objects
        self.metadata = metadata
        self.requests = {"GET": 0, "HEAD": 0}
        super().__init__(self._handler())

    def _handler(bucket):
        class Handler(Answering):
            def do_HEAD(self):
                bucket.requests["HEAD"] += 1
                path = urllib.parse.urlsplit(self.path).path.removeprefix("/bucket/")
                self.answer(*((200, b"", [("ETag", tag(path))]) if path[-1:].isdigit() else (404, b"", [])))

            def do_GET(self):
                bucket.requests["GET"] += 1
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
                self.answer(200, bucket.page(query).encode(), [("Content-Type", "application/xml")])

        return Handler

    def page(self, query):
        """A page of ListObjectsV2 of the root or a folder, with the delimiter `/`."""
        size = min(int(query.get("max-keys", "1000")), 1000)
        start = int(query.get("continuation-token", "0"))
        prefix = query.get("prefix", "")
        count = self.objects if prefix else self.folders
        end = min(start + size, count)
        if not prefix:
            items = [f"<CommonPrefixes><Prefix>d{index:05}/</Prefix></CommonPrefixes>" for index in range(start, end)]
        else:
            extra = self.metadata and query.get("metadata") == "true"
            items = [self.contents(f"{prefix}object-{index:08}", index, extra) for index in range(start, end)]
        more = f"<NextContinuationToken>{end}</NextContinuationToken>" if end < count else ""
        truncated = "true" if more else "false"
        return (
            f"{HEAD}<Name>bucket</Name><Prefix>{prefix}</Prefix><KeyCount>{len(items)}</KeyCount>"
            f"<MaxKeys>{size}</MaxKeys><IsTruncated>{truncated}</IsTruncated>{more}{''.join(items)}</ListBucketResult>"
        )

    @staticmethod
    def contents(key, index, extra):
        metadata = (
            f"<UserMetadata><X-Amz-Meta-Mode>33188</X-Amz-Meta-Mode><X-Amz-Meta-Uid>1000</X-Amz-Meta-Uid>"
            f"<X-Amz-Meta-Gid>1000</X-Amz-Meta-Gid><X-Amz-Meta-Mtime>{1_600_000_000 + index}.123456789"
            "</X-Amz-Meta-Mtime></UserMetadata>" if extra else ""
        )
        return (
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{tag(key)}</ETag>"
            f"<Size>0</Size><StorageClass>STANDARD</StorageClass>{metadata}</Contents>"
        )


def tag(key):
    return '"' + hashlib.md5(key.encode(), usedforsecurity=False).hexdigest() + '"'
