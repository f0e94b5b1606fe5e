// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import S3Wire

/// Index pages in HTML, as Apache, nginx, lighttpd, `rclone serve http` and Python's server write them.
///
/// Read with suspicion: a page counts as an index only by its title, and of its
/// links only those to direct children of the folder count. Sizes and times
/// are for people there (`1.2K`, no seconds), so none is taken.
package enum HTMLIndex {
    /// How many names a page may have.
    private static let limit = 500_000

    /// The names that a page links to, each once; nil when the page is no index of a folder.
    package static func parse(_ document: [UInt8], of folder: WebURL) throws(ListingProblem) -> [ListedName]? {
        var scanner = TagScanner(document)
        var isIndex = false
        var names: [ListedName] = []
        var seen: [ObjectKey: Int] = [:]
        while let tag = scanner.next() {
            if !isIndex, tag.name == "title" || tag.name == "h1" || tag.name == "h2" {
                isIndex = isTitle(scanner.textAhead(4096), folder)
            }
            guard isIndex, tag.name == "a", let reference = tag.value(of: "href"),
                let found = ListedName.child(reference, of: folder)
            else { continue }
            if let place = seen[found.name] {
                names[place].isFolder = names[place].isFolder || found.isFolder
                continue
            }
            guard names.count < limit else { throw ListingProblem("more than \(limit) names in a page") }
            seen[found.name] = names.count
            names.append(ListedName(name: found.name, isFolder: found.isFolder))
        }
        return isIndex ? names : nil
    }

    /// `Index of /a/`, `Directory listing for /a/`, or just the end of the folder's path, as rclone and caddy have it.
    private static func isTitle(_ text: String, _ folder: WebURL) -> Bool {
        let text = trimmingOptionalWhitespace(text.replacing("\n", with: " ").replacing("\r", with: " "))
        let lowered = text.lowercased()
        if lowered.hasPrefix("index of ") || lowered.hasPrefix("directory listing ") { return true }
        guard text.hasPrefix("/"), let path = PercentEncoding.decode(folder.path) else { return false }
        let wanted = Array((text.hasSuffix("/") ? text : text + "/").utf8)
        return path.count >= wanted.count && path.suffix(wanted.count).elementsEqual(wanted)
    }
}

/// Finds the start tags of a page; comments, scripts and styles are skipped.
private struct TagScanner {
    struct Tag {
        var name: String
        var attributes: [(name: String, value: String)] = []

        func value(of name: String) -> String? { attributes.first { $0.name == name }?.value }
    }

    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// The text from here to the next tag.
    func textAhead(_ count: Int) -> String {
        let text = bytes[position...].prefix(count).prefix { $0 != UInt8(ascii: "<") }
        return HTMLText.decoded(String(decoding: text, as: UTF8.self))
    }

    mutating func next() -> Tag? {
        while let open = bytes[position...].firstIndex(of: UInt8(ascii: "<")) {
            position = open + 1
            if bytes[position...].starts(with: Array("!--".utf8)) {
                skip(to: "-->")
                continue
            }
            let name = word { Self.isLetterOrDigit($0) }
            guard !name.isEmpty else { continue }
            var tag = Tag(name: name.lowercased())
            while let attribute = attribute() { tag.attributes.append(attribute) }
            if tag.name == "script" || tag.name == "style" { skip(to: "</" + tag.name) }
            return tag
        }
        return nil
    }

    private mutating func skip(to end: String) {
        let end = Array(end.utf8)
        while let start = bytes[position...].firstIndex(of: end[0]) {
            position = start
            if bytes[start...].starts(with: end) { return }
            position += 1
        }
        position = bytes.count
    }

    private mutating func attribute() -> (name: String, value: String)? {
        while position < bytes.count, Self.isSpace(bytes[position]) || bytes[position] == UInt8(ascii: "/") {
            position += 1
        }
        let name = word { !Self.isSpace($0) && !Self.ends.contains($0) }.lowercased()
        guard !name.isEmpty else {
            if position < bytes.count, bytes[position] == UInt8(ascii: ">") { position += 1 }
            return nil
        }
        skipSpace()
        guard position < bytes.count, bytes[position] == UInt8(ascii: "=") else { return (name, "") }
        position += 1
        skipSpace()
        return (name, HTMLText.decoded(value()))
    }

    private mutating func value() -> String {
        guard position < bytes.count else { return "" }
        let quote = bytes[position]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else {
            return word { !Self.isSpace($0) && $0 != UInt8(ascii: ">") }
        }
        position += 1
        let text = word { $0 != quote }
        if position < bytes.count { position += 1 }
        return text
    }

    private mutating func word(_ isPart: (UInt8) -> Bool) -> String {
        let start = position
        while position < bytes.count, isPart(bytes[position]) { position += 1 }
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func skipSpace() {
        while position < bytes.count, Self.isSpace(bytes[position]) { position += 1 }
    }

    private static let ends: Set<UInt8> = [0x22, 0x27, 0x2F, 0x3C, 0x3D, 0x3E]

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (byte >= 0x09 && byte <= 0x0D) }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}

/// The character references that servers write into links.
package enum HTMLText {
    private static let named = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": "\u{A0}"]

    /// The text with its character references replaced; unknown ones stay as they are.
    package static func decoded(_ text: String) -> String {
        guard text.utf8.contains(UInt8(ascii: "&")) else { return text }
        var result = ""
        var rest = text[...]
        while let ampersand = rest.firstIndex(of: "&") {
            result += rest[..<ampersand]
            rest = rest[rest.index(after: ampersand)...]
            guard let end = rest.prefix(12).firstIndex(of: ";"), let character = character(String(rest[..<end])) else {
                result += "&"
                continue
            }
            result += character
            rest = rest[rest.index(after: end)...]
        }
        return result + rest
    }

    private static func character(_ name: String) -> String? {
        guard name.hasPrefix("#") else { return named[name] }
        let digits = name.dropFirst()
        let isHexadecimal = digits.lowercased().hasPrefix("x")
        let number = UInt32(isHexadecimal ? digits.dropFirst() : digits, radix: isHexadecimal ? 16 : 10)
        return number.flatMap { UnicodeScalar($0) }.map { String(Character($0)) }
    }
}
