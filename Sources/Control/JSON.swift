// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import FoundationEssentials

/// Values to and from JSON documents.
package enum JSON {
    /// The document on one line.
    ///
    /// `isPretty` indents it. Members are in alphabetical order.
    package static func encode(_ value: some Encodable, isPretty: Bool = false) throws(ControlError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting =
            isPretty
            ? [.sortedKeys, .prettyPrinted, .withoutEscapingSlashes]
            : [
                .sortedKeys, .withoutEscapingSlashes,
            ]
        do {
            return [UInt8](try encoder.encode(value))
        } catch {
            throw .malformed("\(error)")
        }
    }

    /// The value of a document; unknown members are passed over.
    package static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws(ControlError) -> Value
    {
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            // The decoder's text may quote the document, which may hold credentials.
            throw .malformed("not a \(type)")
        }
    }
}
