// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// Reading one field line strictly (RFC 9112, section 5).
enum HTTPFieldLine {
    /// Parses a line without its line end; refuses folded lines, a space before the colon and control characters.
    static func parse(_ line: ArraySlice<UInt8>) throws(HTTPParseError) -> HTTPFields.Field {
        guard let first = line.first else { throw HTTPParseError("empty field line") }
        if first == HTTPOctet.space || first == HTTPOctet.tab { throw HTTPParseError("folded field line") }
        guard let colon = line.firstIndex(of: HTTPOctet.colon), colon > line.startIndex else {
            throw HTTPParseError("field line without a name")
        }
        let name = line[..<colon]
        guard name.allSatisfy(HTTPOctet.isTokenCharacter) else { throw HTTPParseError("bad field name") }
        let value = trimmed(line[(colon + 1)...])
        guard value.allSatisfy(HTTPOctet.isFieldCharacter) else { throw HTTPParseError("bad field value") }
        return HTTPFields.Field(name: String(decoding: name, as: UTF8.self), value: text(value))
    }

    private static func trimmed(_ value: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var value = value
        while let first = value.first, first == HTTPOctet.space || first == HTTPOctet.tab { value.removeFirst() }
        while let last = value.last, last == HTTPOctet.space || last == HTTPOctet.tab { value.removeLast() }
        return value
    }

    /// A value is UTF-8 where it can be, else the old ISO 8859-1.
    private static func text(_ value: ArraySlice<UInt8>) -> String {
        if let text = String(validating: value, as: UTF8.self) { return text }
        return String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }
}
