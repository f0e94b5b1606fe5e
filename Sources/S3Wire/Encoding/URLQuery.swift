// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The query of a request, decoded.
package struct URLQuery: Hashable, Sendable {
    /// One parameter; a sub-resource such as `?uploads` has an empty value.
    package struct Item: Hashable, Sendable {
        package let name: String
        /// What the value is on the wire once it is decoded; keys need not be UTF-8.
        package let bytes: [UInt8]

        package init(_ name: String, _ value: String = "") {
            self.init(name, bytes: Array(value.utf8))
        }

        package init(_ name: String, bytes: [UInt8]) {
            self.name = name
            self.bytes = bytes
        }

        /// The value as text.
        package var value: String { String(decoding: bytes, as: UTF8.self) }
    }

    package var items: [Item]

    package init(_ items: [Item] = []) {
        self.items = items
    }

    /// Reads what stands behind `?` in a request target; nil when it is malformed, not UTF-8, or above 200 parameters.
    package init?(wire: some StringProtocol) {
        items = []
        for pair in wire.split(separator: "&", omittingEmptySubsequences: true) {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard items.count < 200, let name = Self.decode(parts[0]),
                let value = parts.count == 2 ? Self.decode(parts[1]) : ""
            else { return nil }
            items.append(Item(name, value))
        }
    }

    private static func decode(_ text: some StringProtocol) -> String? {
        PercentEncoding.decode(text, plusIsSpace: true).flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// The first value of a parameter, nil when it is absent.
    package subscript(name: String) -> String? { items.first { $0.name == name }?.value }

    /// Whether a parameter is there, with or without a value.
    package func contains(_ name: String) -> Bool { items.contains { $0.name == name } }

    package mutating func append(_ name: String, _ value: String = "") {
        items.append(Item(name, value))
    }

    package mutating func append(_ name: String, bytes: [UInt8]) {
        items.append(Item(name, bytes: bytes))
    }

    /// The query as SigV4 signs it, and as we send it: encoded, sorted by name then value, each with `=`.
    package var canonical: String {
        items.map { (PercentEncoding.encode($0.name), PercentEncoding.encode($0.bytes)) }
            .sorted { left, right in
                left.0 == right.0
                    ? left.1.utf8.lexicographicallyPrecedes(right.1.utf8)
                    : left.0.utf8.lexicographicallyPrecedes(right.0.utf8)
            }
            .map { "\($0.0)=\($0.1)" }
            .joined(separator: "&")
    }
}
