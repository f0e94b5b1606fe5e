// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The form of the AWS configuration files: sections of `name = value` lines.
///
/// Indented lines belong to the nested setting above them and are skipped, as
/// nothing nested is needed here.
struct INIFile: Sendable {
    private(set) var sections: [String: [String: String]] = [:]

    init(_ text: String) {
        var current: String?
        for line in text.split(whereSeparator: \.isNewline) {
            guard let first = line.first, first != "#", first != ";", first != " ", first != "\t" else { continue }
            if first == "[" {
                guard let end = line.firstIndex(of: "]") else {
                    current = nil
                    continue
                }
                let name = Self.trimmed(line[line.index(after: line.startIndex)..<end])
                current = name
                sections[name, default: [:]] = sections[name] ?? [:]
            } else if let current, let equals = line.firstIndex(of: "=") {
                let name = Self.trimmed(line[..<equals]).lowercased()
                sections[current]?[name] = Self.value(line[line.index(after: equals)...])
            }
        }
    }

    /// A value without a comment behind it, which needs a space before its `#`.
    private static func value(_ text: Substring) -> String {
        var result = trimmed(text)
        for mark in [" #", " ;", "\t#", "\t;"] {
            if let range = result.firstRange(of: mark) { result = trimmed(result[..<range.lowerBound]) }
        }
        return result
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let start = text.drop { $0.isWhitespace }
        let end = start.lastIndex { !$0.isWhitespace }.map { start.index(after: $0) } ?? start.startIndex
        return String(start[..<end])
    }
}
