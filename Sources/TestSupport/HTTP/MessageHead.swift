// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// An HTTP/1.1 request or response head as it was on the wire (RFC 9112, section 2).
package struct MessageHead: Sendable {
    package let startLine: String
    package private(set) var fields: [(name: String, value: String)]

    /// Parses a head that ends with its empty line; nil when it has no start line.
    package init?(_ raw: [UInt8]) {
        let lines = String(decoding: raw, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: true)
        guard let first = lines.first else { return nil }
        startLine = String(first)
        fields = lines.dropFirst().compactMap { line in
            guard let colon = line.firstIndex(of: ":") else { return nil }
            let value = line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            return (String(line[..<colon]), String(value))
        }
    }

    /// The value of the first field with that name, in any case.
    package func value(of name: String) -> String? {
        fields.first { $0.name.lowercased() == name.lowercased() }?.value
    }

    /// Replaces a field, or adds it at the end.
    package mutating func set(_ name: String, _ value: String) {
        fields.removeAll { $0.name.lowercased() == name.lowercased() }
        fields.append((name, value))
    }

    /// The head's bytes with the empty line.
    package var serialized: [UInt8] {
        let lines = [startLine] + fields.map { "\($0.name): \($0.value)" }
        return Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    }

    private func word(_ index: Int) -> String {
        let words = startLine.split(separator: " ", maxSplits: 2)
        return index < words.count ? String(words[index]) : ""
    }

    /// The method of a request.
    package var method: String { word(0) }

    /// The path of a request's target, undecoded.
    package var path: String { String(word(1).prefix { $0 != "?" }) }

    /// The query of a request's target without `?`, undecoded; empty when there is none.
    package var query: String { String(word(1).drop { $0 != "?" }.dropFirst()) }

    /// The status of a response, 0 when it is not a number.
    package var status: Int { Int(word(1)) ?? 0 }

    /// How a request's body is delimited (RFC 9112, section 6).
    package var requestFraming: BodyFraming {
        if value(of: "Transfer-Encoding")?.lowercased().contains("chunked") == true { return .chunked }
        return .length(value(of: "Content-Length").flatMap { Int64($0) } ?? 0)
    }

    /// How the body of a response to `method` is delimited.
    package func responseFraming(to method: String) -> BodyFraming {
        if method == "HEAD" || status == 204 || status == 304 || status < 200 { return .length(0) }
        if value(of: "Transfer-Encoding")?.lowercased().contains("chunked") == true { return .chunked }
        guard let length = value(of: "Content-Length").flatMap({ Int64($0) }) else { return .untilClose }
        return .length(length)
    }
}
