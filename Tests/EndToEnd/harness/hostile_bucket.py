# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A bucket that holds keys which no folder on a disk can hold: a server of its own, read-only but for DELETE and PUT."""

import hashlib
import urllib.parse

from .made_up_bucket import HEAD, Answering, MadeUpBucket


class HostileBucket(MadeUpBucket):
    """Objects by their keys, both bytes. Listings come in pages of `page` names, in the order of bytes as S3's do.

    Those of `unlisted` are left out of listings, and `bodies` counts the answers that sent one.
    """

    def __init__(self, objects, page=1000):
        self.objects = dict(objects)
        self.page = page
        self.unlisted = set()
        self.bodies = 0
        super().__init__(self._handler())

    def _handler(bucket):
        class Handler(Answering):
            def _key(self):
                path = urllib.parse.urlsplit(self.path).path
                return urllib.parse.unquote_to_bytes(path).removeprefix(b"/bucket").removeprefix(b"/")

            def do_GET(self):
                query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
                if "list-type" in query:
                    return self.answer(200, bucket.listing(self._raw_query()), [("Content-Type", "application/xml")])
                if "uploads" in query:
                    return self.answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>", [])
                self._object()

            def do_HEAD(self):
                self._object()

            def do_PUT(self):
                key = self._key()
                bucket.objects[key] = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.answer(200, b"", [("ETag", tag(key, bucket.objects[key]))])

            def do_DELETE(self):
                bucket.objects.pop(self._key(), None)
                self.answer(204, b"", [])

            def _raw_query(self):
                parts = (part.partition("=") for part in urllib.parse.urlsplit(self.path).query.split("&"))
                return {name: urllib.parse.unquote_to_bytes(value) for name, _, value in parts}

            def _object(self):
                key = self._key()
                body = bucket.objects.get(key)
                if body is None:
                    return self.answer(404, b"", [])
                if self.command == "GET":
                    bucket.bodies += 1
                fields = [("ETag", tag(key, body)), ("Accept-Ranges", "bytes")]
                span = self.headers.get("Range", "")
                if not span.startswith("bytes=") or not body:
                    return self.answer(200, body, fields)
                first, _, last = span.removeprefix("bytes=").partition("-")
                part = body[int(first) : int(last) + 1 if last else None]
                end = int(first) + len(part) - 1
                self.answer(206, part, [*fields, ("Content-Range", f"bytes {first}-{end}/{len(body)}")])

        return Handler

    def listing(self, query):
        """A page of ListObjectsV2; keys are percent-encoded, as clients ask for it."""
        prefix, delimiter = query.get("prefix", b""), query.get("delimiter", b"")
        start = query.get("continuation-token", b"")
        items = {}
        for key, body in self.objects.items():
            if not key.startswith(prefix) or key in self.unlisted:
                continue
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                name = key[: cut + len(delimiter)]
                items[name] = f"<CommonPrefixes><Prefix>{quoted(name)}</Prefix></CommonPrefixes>"
            else:
                items[key] = (
                    f"<Contents><Key>{quoted(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f"<ETag>{tag(key, body)}</ETag><Size>{len(body)}</Size></Contents>"
                )
        names = sorted(name for name in items if not start or name > urllib.parse.unquote_to_bytes(start))
        page = names[: self.page]
        more = len(names) > len(page)
        token = f"<NextContinuationToken>{quoted(page[-1])}</NextContinuationToken>" if more else ""
        return (
            f"{HEAD}<Name>bucket</Name><EncodingType>url</EncodingType><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}"
            f"{''.join(items[name] for name in page)}</ListBucketResult>"
        ).encode()


def quoted(key):
    return urllib.parse.quote_from_bytes(key, safe="/")


def tag(key, body):
    return '"' + hashlib.md5(key + b"\0" + body, usedforsecurity=False).hexdigest() + '"'
