// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire

/// Typed access to a document's elements; a missing or malformed one is an error that names it.
extension XMLElement {
    /// Checks the root's name.
    package func expect(_ root: String) throws(XMLProblem) {
        guard name == root else { throw XMLProblem("expected <\(root)>, got <\(name)>") }
    }

    package func required(_ name: String) throws(XMLProblem) -> String {
        guard let text = self[name] else { throw XMLProblem("<\(self.name)> without <\(name)>") }
        return text
    }

    package func number(_ name: String) throws(XMLProblem) -> Int64? {
        guard let text = self[name].map({ XMLElement.trimmed($0) }), !text.isEmpty else { return nil }
        guard let value = decimalNumber(text) else { throw XMLProblem("<\(name)> is not a number") }
        return value
    }

    package func requiredNumber(_ name: String) throws(XMLProblem) -> Int64 {
        guard let value = try number(name) else { throw XMLProblem("<\(self.name)> without <\(name)>") }
        return value
    }

    package func boolean(_ name: String) -> Bool {
        self[name].map { XMLElement.trimmed($0).lowercased() == "true" } ?? false
    }

    package func time(_ name: String) -> Timestamp? {
        self[name].flatMap { Timestamp(s3: XMLElement.trimmed($0)) }
    }

    /// A key or prefix, nil when absent.
    ///
    /// With `isEncoded` both `%20` and `+` are spaces: servers differ, and a
    /// literal plus is `%2B` everywhere.
    package func key(_ name: String, isEncoded: Bool) throws(XMLProblem) -> ObjectKey? {
        guard let text = self[name] else { return nil }
        guard isEncoded else { return ObjectKey(text) }
        guard let bytes = PercentEncoding.decode(text, plusIsSpace: true) else {
            throw XMLProblem("<\(name)> is not percent-encoded as announced")
        }
        return ObjectKey(bytes: bytes)
    }

    private static func trimmed(_ text: String) -> String {
        // Mostly there is nothing to trim; a listing has some thousand of them.
        guard let first = text.utf8.first, let last = text.utf8.last else { return text }
        guard isSpace(first) || isSpace(last) else { return text }
        let bytes = Array(text.utf8).drop(while: isSpace)
        let end = bytes.lastIndex { !isSpace($0) }.map { $0 + 1 } ?? bytes.startIndex
        return String(decoding: bytes[bytes.startIndex..<end], as: UTF8.self)
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D
    }
}
