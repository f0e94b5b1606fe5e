// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ObjectStore
import Testing

@testable import Stores

@Suite struct S3MetadataTests {
    private func mode(_ text: String, device: String? = nil) -> UInt32? {
        var fields = HTTPFields()
        // The order of fields says nothing.
        fields.append("x-amz-meta-mode", text)
        if let device { fields.append("x-amz-meta-rdev", device) }
        return S3Metadata.read(fields).mode
    }

    @Test(
        arguments: [
            ("33188", 0o100644), ("100644", 0o100644), ("16877", 0o040755), ("040755", 0o040755), ("41471", 0o120777),
            ("644", 0o644), ("4516", 0o010644), ("4480", 0o010600), ("010600", 0o010600), ("8576", 0o020600),
            ("25008", 0o060660), ("49645", 0o140755), ("140755", 0o140755), ("4755", 0o4755), ("10644", 0o010644),
        ] as [(String, UInt32)]
    )
    func modesAreReadInDecimalAndInOctal(text: String, expected: UInt32) {
        #expect(mode(text) == expected)
    }

    /// All twelve bits of the permissions of every kind, as written by us.
    @Test(arguments: [0o010_000, 0o020_000, 0o060_000, 0o140_000] as [UInt32])
    func specialFilesKeepAllBits(type: UInt32) {
        for permissions in 0...UInt32(0o7777) {
            let fields = S3Metadata.fields(ObjectMetadata(mode: type | permissions, device: 0))
            #expect(S3Metadata.read(fields).mode == type | permissions)
        }
    }

    @Test func extendedAttributesTravelAsTheyAre() throws {
        let text = "%7B%22user.a%22%3A%22AQ%3D%3D%22%7D"
        let metadata = ObjectMetadata(extended: try #require(ExtendedAttributes(text: text)))
        let fields = S3Metadata.fields(metadata)
        #expect(fields["x-amz-meta-xattr"] == text)
        #expect(S3Metadata.read(fields) == metadata)
        #expect(S3Metadata.fields(ObjectMetadata()).fields.isEmpty)
        var foreign = HTTPFields()
        foreign.append("X-Amz-Meta-Xattr", "no t\u{e9}xt")
        #expect(S3Metadata.read(foreign) == ObjectMetadata())
    }

    @Test func deviceNumbersTravelWithTheObject() {
        let metadata = ObjectMetadata(mode: 0o020_600, device: 0xFFFF_FFFF)
        let fields = S3Metadata.fields(metadata)
        #expect(fields["x-amz-meta-rdev"] == "4294967295")
        #expect(S3Metadata.read(fields) == metadata)
        #expect(mode("8576", device: "no number") == 0o020_600)
    }
}
