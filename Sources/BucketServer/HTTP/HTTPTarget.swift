// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Taking a request target apart (RFC 3986, sections 2.1 and 3.4).
enum HTTPTarget {
    /// The decoded path and the query's arguments of a target in origin form.
    static func parse(_ target: String) throws(HTTPParseError) -> (path: [UInt8], query: [HTTPQueryItem]) {
        let bytes = Array(target.utf8)
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "?")) else {
            return (try decoded(bytes[...]), [])
        }
        var query: [HTTPQueryItem] = []
        for argument in bytes[(mark + 1)...].split(separator: UInt8(ascii: "&")) {
            query.append(try item(argument))
        }
        return (try decoded(bytes[..<mark]), query)
    }

    private static func item(_ argument: ArraySlice<UInt8>) throws(HTTPParseError) -> HTTPQueryItem {
        let equals = argument.firstIndex(of: UInt8(ascii: "="))
        let name = try decoded(argument[..<(equals ?? argument.endIndex)], plusIsSpace: true)
        guard let text = String(validating: name, as: UTF8.self) else {
            throw HTTPParseError("query is not UTF-8")
        }
        guard let equals else { return HTTPQueryItem(name: text, value: nil) }
        return HTTPQueryItem(name: text, value: try decoded(argument[(equals + 1)...], plusIsSpace: true))
    }

    /// Removes percent-encoding; a percent sign without two hexadecimal digits is an error.
    static func decoded(
        _ text: ArraySlice<UInt8>,
        plusIsSpace: Bool = false
    ) throws(HTTPParseError) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(text.count)
        var index = text.startIndex
        while index < text.endIndex {
            let octet = text[index]
            index += 1
            if octet == UInt8(ascii: "+"), plusIsSpace {
                result.append(HTTPOctet.space)
            } else if octet == UInt8(ascii: "%") {
                guard index + 1 < text.endIndex, let high = HTTPOctet.hexadecimal(text[index]),
                    let low = HTTPOctet.hexadecimal(text[index + 1])
                else { throw HTTPParseError("bad percent-encoding") }
                result.append(high << 4 | low)
                index += 2
            } else {
                result.append(octet)
            }
        }
        return result
    }
}
