# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The words of each version of resumable uploads, written from the drafts and not from our code."""

import base64
import hashlib

from .wire import Wire

VERSIONS = ["3", "4", "5", "6", "7", "8", "9", "final"]


class Dialect:
    """Makes and reads messages of one version; ``number`` is 100 for the final form."""

    def __init__(self, version, address):
        self.version = version
        self.number = 100 if version == "final" else int(version)
        self.address = address

    def wire(self):
        return Wire(self.address)

    def fields(self, complete=None, offset=None, length=None, **extra):
        """The fields of a request."""
        fields = {name.replace("_", "-"): value for name, value in extra.items()}
        if self.number < 100:
            fields["Upload-Draft-Interop-Version"] = self.version
        if complete is not None:
            if self.number == 3:
                fields["Upload-Incomplete"] = "?0" if complete else "?1"
            else:
                fields["Upload-Complete"] = "?1" if complete else "?0"
        if offset is not None:
            fields["Upload-Offset"] = str(offset)
            if self.number >= 6:
                fields.setdefault("Content-Type", "application/partial-upload")
        if length is not None and self.number >= 6:
            fields["Upload-Length"] = str(length)
        return fields

    def complete(self, response):
        """Whether a response says that the upload is complete; None when it says nothing."""
        if self.number == 3:
            assert response.get("Upload-Complete") is None
            return {"?0": True, "?1": False, None: None}[response.get("Upload-Incomplete")]
        assert response.get("Upload-Incomplete") is None
        return {"?1": True, "?0": False, None: None}[response.get("Upload-Complete")]

    def check_version(self, response):
        """Every message of the protocol names the version of the request."""
        expected = None if self.number == 100 else self.version
        assert response.get("Upload-Draft-Interop-Version") == expected, response

    def ask(self, method, target, fields, body=b""):
        with self.wire() as wire:
            return wire.ask(method, target, fields, body)

    def options(self, target):
        return self.ask("OPTIONS", target, self.fields())[1]

    def create(self, target, method="PUT", body=b"", complete=False, length=None, **extra):
        """Creates an upload; returns its URL with the final response."""
        fields = self.fields(complete=complete, length=length, **extra)
        interim, response = self.ask(method, target, fields, body)
        announced = [r for r in interim if r.status == 104 and r.get("Location")]
        return (announced[0]["Location"] if announced else None), response

    def offset(self, url):
        """The offset that HEAD tells, and whether the upload is complete."""
        _, response = self.ask("HEAD", url, self.fields())
        assert response.status == 204, response
        self.check_version(response)
        assert response["Cache-Control"] == "no-store"
        return int(response["Upload-Offset"]), self.complete(response)

    def append(self, url, offset, body, complete, **extra):
        return self.ask("PATCH", url, self.fields(complete=complete, offset=offset, **extra), body)[1]

    def delete(self, url):
        return self.ask("DELETE", url, self.fields())[1]

    def limits(self, response):
        """The limits of a response as numbers by name."""
        text = response.get("Upload-Limit")
        if text is None:
            return None
        return {name.strip(): int(value) for name, value in (item.split("=") for item in text.split(","))}


def sha256_field(data):
    return "sha-256=:" + base64.b64encode(hashlib.sha256(data).digest()).decode() + ":"
