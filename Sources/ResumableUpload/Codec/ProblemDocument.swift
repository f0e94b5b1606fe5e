// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// A problem document (RFC 9457), as far as this protocol needs it.
package struct ProblemDocument: Hashable, Sendable {
    package let problem: UploadProtocol.Problem?
    package let expectedOffset: Int64?

    /// Looks for the protocol's members in a body of the right media type; nil for any other body.
    package init?(fields: HTTPFields, body: [UInt8]) {
        guard let type = fields["Content-Type"], type.utf8.starts(with: UploadProtocol.problemType.utf8) else {
            return nil
        }
        let text = body.prefix(65_536)
        problem = Self.string(after: "\"type\"", in: text).flatMap { uri in
            UploadProtocol.Problem.allCases.first { uri.hasSuffix("#" + $0.rawValue) }
        }
        expectedOffset = Self.integer(after: "\"expected-offset\"", in: text)
    }

    /// Writes a document; `members` are the Integers beside type, title and status.
    package static func body(_ problem: UploadProtocol.Problem, members: [(String, Int64)] = []) -> [UInt8] {
        var text = "{\"type\":\"\(problem.uri)\",\"title\":\"\(problem.title)\",\"status\":\(problem.status)"
        for (name, value) in members { text += ",\"\(name)\":\(value)" }
        return Array((text + "}").utf8)
    }

    /// The bytes behind a member's colon.
    private static func value(after name: String, in text: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        let pattern = Array(name.utf8)
        var start = text.startIndex
        while start + pattern.count <= text.endIndex {
            if text[start...].starts(with: pattern) {
                let rest = text[(start + pattern.count)...].drop(while: isSpace)
                return rest.first == UInt8(ascii: ":") ? rest.dropFirst().drop(while: isSpace) : nil
            }
            start += 1
        }
        return nil
    }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }

    private static func string(after name: String, in text: ArraySlice<UInt8>) -> String? {
        guard let rest = value(after: name, in: text), rest.first == UInt8(ascii: "\"") else { return nil }
        return String(decoding: rest.dropFirst().prefix { $0 != UInt8(ascii: "\"") }, as: UTF8.self)
    }

    private static func integer(after name: String, in text: ArraySlice<UInt8>) -> Int64? {
        guard let rest = value(after: name, in: text) else { return nil }
        return Int64(String(decoding: rest.prefix { $0 >= 0x30 && $0 <= 0x39 }.prefix(16), as: UTF8.self))
    }
}
