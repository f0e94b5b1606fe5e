// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire

/// Assembles response heads from the header lines libcurl hands over: interim ones, the final one, trailers.
struct HeadReader {
    /// A complete head.
    struct Head {
        var status: Int
        var fields: HTTPFields
    }

    enum Event {
        case none
        case head(Head)
        case violation(String)
    }

    private static let fieldLimit = 256
    private static let byteLimit = 128 << 10

    private var current: Head?
    private var byteCount = 0

    /// Takes one line with its line end.
    mutating func take(_ line: UnsafeRawBufferPointer) -> Event {
        var end = line.count
        while end > 0, line[end - 1] == 0x0A || line[end - 1] == 0x0D { end -= 1 }
        let text = line[..<end]
        if text.starts(with: "HTTP/".utf8) {
            guard let status = Self.status(text) else { return .violation("a malformed status line") }
            current = Head(status: status, fields: HTTPFields())
            byteCount = 0
            return .none
        }
        // Behind the final head only trailers come; nothing here needs them.
        guard var head = current else { return .none }
        if text.isEmpty {
            current = nil
            return .head(head)
        }
        byteCount += text.count
        guard byteCount <= Self.byteLimit, head.fields.fields.count < Self.fieldLimit else {
            return .violation("a response head above \(Self.byteLimit) bytes or \(Self.fieldLimit) fields")
        }
        guard let colon = text.firstIndex(of: 0x3A) else { return .violation("a header line without a colon") }
        let name = String(decoding: text[..<colon], as: UTF8.self)
        let value = trimmingOptionalWhitespace(String(decoding: text[(colon + 1)...], as: UTF8.self))
        head.fields.append(name, value)
        current = head
        return .none
    }

    /// The code of `HTTP/1.1 104 Upload Resumption Supported`.
    private static func status(_ line: Slice<UnsafeRawBufferPointer>) -> Int? {
        let words = line.split(separator: 0x20, maxSplits: 2)
        guard words.count >= 2, words[1].count == 3, let status = decimalNumber(words[1]), status >= 100 else {
            return nil
        }
        return Int(status)
    }
}
