// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A line of the control protocol: a verb and `key=value` words, values percent-encoded.
struct ControlLine {
    let verb: String
    private let values: [String: String]

    /// A refused line, with what is wrong with it.
    struct Refusal: Error {
        let reason: String
    }

    init(_ line: String) {
        let words = line.split(whereSeparator: { $0 == " " || $0 == "\r" })
        verb = words.first.map(String.init) ?? ""
        values = words.dropFirst().reduce(into: [:]) { values, word in
            let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            values[String(parts[0])] = parts.count > 1 ? Self.decoded(parts[1]) : ""
        }
    }

    /// The value of a key; nil when the key is absent or empty.
    func text(_ key: String) -> String? {
        values[key].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The value of a key as a number; nil when the key is absent.
    func number(_ key: String) throws(Refusal) -> Int64? {
        guard let text = text(key) else { return nil }
        guard let number = Int64(text) else { throw Refusal(reason: "\(key) is no number: \(text)") }
        return number
    }

    /// The value of a key that must be there, as a number.
    func required(_ key: String) throws(Refusal) -> Int64 {
        guard let number = try number(key) else { throw Refusal(reason: "\(verb) needs \(key)=") }
        return number
    }

    /// The style of a cut: `how=rst` (the default) or `how=fin`.
    func cutStyle() throws(Refusal) -> CutStyle {
        guard let style = CutStyle(rawValue: text("how") ?? "rst") else { throw Refusal(reason: "how is rst or fin") }
        return style
    }

    /// The way of the bytes: `direction=request` (the default) or `direction=response`.
    func direction() throws(Refusal) -> Direction {
        guard let direction = Direction(rawValue: text("direction") ?? "request") else {
            throw Refusal(reason: "direction is request or response")
        }
        return direction
    }

    private static func decoded(_ text: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            if byte == 0x25, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
