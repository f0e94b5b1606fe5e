// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The sections of an INI text with their line numbers, nothing interpreted.
///
/// `#` and `;` begin a comment line; a comment behind a value is part of the
/// value, as in rclone.conf. Continuation lines do not exist.
struct INIFile {
    struct Entry {
        var key: String
        var value: String
        var line: Int
    }

    struct Section {
        var title: String
        var line: Int
        var entries: [Entry] = []
    }

    private(set) var sections: [Section] = []

    init(text: String, path: String) throws(ConfigurationError) {
        var number = 0
        // A carriage return and a newline are one character.
        for raw in text.split(omittingEmptySubsequences: false, whereSeparator: { $0 == "\n" || $0 == "\r\n" }) {
            number += 1
            let line = String(raw).trimmed
            if line.isEmpty || line.hasPrefix("#") || line.hasPrefix(";") { continue }
            if line.hasPrefix("[") {
                try begin(line, number, path)
            } else {
                try add(line, number, path)
            }
        }
    }

    private mutating func begin(_ line: String, _ number: Int, _ path: String) throws(ConfigurationError) {
        guard line.hasSuffix("]") else { throw ConfigurationError("\(path):\(number)", "section without closing ]") }
        let title = String(line.dropFirst().dropLast()).trimmed
        if let earlier = sections.first(where: { $0.title == title }) {
            throw ConfigurationError("\(path):\(number)", "[\(title)] stands already on line \(earlier.line)")
        }
        sections.append(Section(title: title, line: number))
    }

    private mutating func add(_ line: String, _ number: Int, _ path: String) throws(ConfigurationError) {
        let place = "\(path):\(number)"
        guard let equals = line.firstIndex(of: "=") else {
            throw ConfigurationError(place, "neither key = value nor [section]")
        }
        guard !sections.isEmpty else { throw ConfigurationError(place, "a key before the first [section]") }
        let key = String(line[..<equals]).trimmed
        let value = String(line[line.index(after: equals)...]).trimmed
        if let earlier = sections[sections.count - 1].entries.first(where: { $0.key == key }) {
            throw ConfigurationError(place, "\(key) stands already on line \(earlier.line)")
        }
        sections[sections.count - 1].entries.append(Entry(key: key, value: value, line: number))
    }
}

extension String {
    /// Without white space at both ends.
    var trimmed: String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else {
            return ""
        }
        return String(self[first...last])
    }
}
