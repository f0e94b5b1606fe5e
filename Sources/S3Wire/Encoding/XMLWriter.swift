// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Writes a document without attributes, every text escaped.
package struct XMLWriter {
    package private(set) var bytes: [UInt8] = Array("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".utf8)

    package init() {}

    /// An element with what `content` writes in it; `isNamespaced` adds S3's namespace, for the root.
    package mutating func element(
        _ name: String,
        isNamespaced: Bool = false,
        _ content: (inout XMLWriter) -> Void
    ) {
        let attribute = isNamespaced ? " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"" : ""
        bytes += Array("<\(name)\(attribute)>".utf8)
        content(&self)
        bytes += Array("</\(name)>".utf8)
    }

    /// An element with text.
    package mutating func text(_ name: String, _ text: String) {
        raw(name, Array(text.utf8))
    }

    /// An element with a number.
    package mutating func number(_ name: String, _ value: Int64) {
        text(name, String(value))
    }

    /// An element with `true` or `false`.
    package mutating func boolean(_ name: String, _ value: Bool) {
        text(name, value ? "true" : "false")
    }

    /// An element with a key or prefix, percent-encoded when the client asked for `encoding-type=url`.
    package mutating func key(_ name: String, _ key: ObjectKey, isEncoded: Bool) {
        if isEncoded {
            text(name, PercentEncoding.encode(key.bytes, keepSlash: true))
        } else {
            raw(name, key.bytes)
        }
    }

    private mutating func raw(_ name: String, _ text: [UInt8]) {
        bytes += Array("<\(name)>".utf8)
        for byte in text {
            switch byte {
            case 0x26: bytes += Array("&amp;".utf8)
            case 0x3C: bytes += Array("&lt;".utf8)
            case 0x3E: bytes += Array("&gt;".utf8)
            case 0x22: bytes += Array("&quot;".utf8)
            // Line ends would be normalised by a reader. XML 1.0 cannot hold the other controls at all: they
            // are written as S3 writes them, and a client that has such keys asks for encoding-type=url.
            case 0..<0x20: bytes += Array("&#x\(String(byte, radix: 16));".utf8)
            default: bytes.append(byte)
            }
        }
        bytes += Array("</\(name)>".utf8)
    }
}
