// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// One argument of a request's query, percent-decoded.
package struct HTTPQueryItem: Hashable, Sendable {
    package let name: String
    /// The decoded bytes behind the equals sign; nil when there is none.
    package let value: [UInt8]?

    package init(name: String, value: [UInt8]?) {
        self.name = name
        self.value = value
    }

    /// The value as text, empty when there is none; bytes that are not UTF-8 become U+FFFD.
    package var text: String { String(decoding: value ?? [], as: UTF8.self) }
}

/// The head of a request, checked and decoded (RFC 9112, section 3).
package struct HTTPRequest: Sendable {
    package var method: String
    /// The target in origin form (path and query) as it came, percent-encoded.
    package var target: String
    /// The path with its percent-encoding removed, beginning with a slash; `*` for `OPTIONS *`.
    package var path: [UInt8]
    /// The query's arguments in the order of the target.
    package var query: [HTTPQueryItem]
    package var fields: HTTPFields
    /// The address of the other side, for logs.
    package var peer: String
    /// Whether the other side is on this machine's loopback interface.
    package var isLoopback: Bool
    /// Set by a wrapping handler that has checked the request's authority itself, for instance when it began
    /// long ago: the wrapped handler then takes it without looking at signatures.
    package var isAuthorized = false

    package init(
        method: String,
        target: String,
        path: [UInt8],
        query: [HTTPQueryItem],
        fields: HTTPFields,
        peer: String,
        isLoopback: Bool
    ) {
        self.method = method
        self.target = target
        self.path = path
        self.query = query
        self.fields = fields
        self.peer = peer
        self.isLoopback = isLoopback
    }

    /// The part of the target before the question mark, still percent-encoded.
    package var rawPath: Substring { target.prefix { $0 != "?" } }

    /// The part of the target behind the first question mark, still percent-encoded; empty when there is none.
    package var rawQuery: Substring { target.drop { $0 != "?" }.dropFirst() }

    /// The text of the first query argument of that name, nil when it is not there.
    package func queryText(_ name: String) -> String? { query.first { $0.name == name }?.text }

    /// Whether the query has an argument of that name, with or without a value.
    package func hasQuery(_ name: String) -> Bool { query.contains { $0.name == name } }
}
