// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Names paths of a volume as gitignore(5) does, without its exceptions; a pure value.
///
/// `*` and `?` stand for anything but a slash, `[a-z]` and `[!a-z]` for one byte, `**` for any number of folders. A
/// pattern without a slash, but at its end, means names in every folder; with one it means the whole path. What it means
/// by a folder it means by all that is in it.
package struct PathPattern: Hashable, Sendable {
    fileprivate enum Token: Hashable, Sendable {
        case byte(UInt8)
        case anyByte
        /// Any bytes but slashes.
        case anyBytes
        case set([ClosedRange<UInt8>], isExcluding: Bool)
    }

    /// The most bytes that a pattern may have.
    package static let limit = 1024
    private static let slash = UInt8(ascii: "/")

    package let text: String
    /// By folder; nil stands for any number of them.
    private let parts: [[Token]?]

    /// Reads a pattern; nil for one that is empty, too long, or has a bracket that is not closed.
    package init?(_ text: String) {
        var bytes = Array(text.utf8)
        while bytes.last == Self.slash { bytes.removeLast() }
        guard !bytes.isEmpty, bytes.count <= Self.limit else { return nil }
        let isAnywhere = !bytes.contains(Self.slash)
        if bytes.first == Self.slash { bytes.removeFirst() }
        var parts: [[Token]?] = isAnywhere ? [nil] : []
        for part in bytes.split(separator: Self.slash, omittingEmptySubsequences: false) {
            if part.elementsEqual("**".utf8) {
                if parts.last != .some(nil) { parts.append(nil) }
                continue
            }
            guard !part.isEmpty, let tokens = Self.tokens(part) else { return nil }
            parts.append(tokens)
        }
        self.text = text
        self.parts = parts
    }

    /// Whether a path, or a folder that it is in, is meant; `path` has slashes between its names only.
    package func matches(_ path: [UInt8]) -> Bool {
        let names = path.split(separator: Self.slash)
        // By how many parts of the pattern the names so far may have been taken.
        var states: Set<Int> = skippingFolders([0])
        for name in names {
            var next: Set<Int> = []
            for state in states where state < parts.count {
                switch parts[state] {
                case nil:
                    next.insert(state)
                    // At the end it stands for what is in the folder, and not for the folder.
                    if state == parts.count - 1 { next.insert(parts.count) }
                case let tokens?: if Self.matches(tokens, name) { next.insert(state + 1) }
                }
            }
            states = skippingFolders(next)
            // A folder is meant: all that is in it is.
            if states.contains(parts.count) { return true }
        }
        return false
    }

    /// The same, with those that `**` for no folder leads to.
    private func skippingFolders(_ states: Set<Int>) -> Set<Int> {
        var result = states
        for state in states where state + 1 < parts.count && parts[state] == nil { result.insert(state + 1) }
        return result
    }

    /// Whether a name is meant, in time that is bounded by the product of the lengths.
    private static func matches(_ tokens: [Token], _ name: ArraySlice<UInt8>) -> Bool {
        var states = Set([0])
        func spread(_ states: inout Set<Int>) {
            for start in states {
                var state = start
                while state < tokens.count, tokens[state] == .anyBytes {
                    state += 1
                    states.insert(state)
                }
            }
        }
        spread(&states)
        for byte in name {
            var next: Set<Int> = []
            for state in states where state < tokens.count {
                switch tokens[state] {
                case .anyBytes: next.insert(state)
                case let token: if token.accepts(byte) { next.insert(state + 1) }
                }
            }
            spread(&next)
            states = next
            if states.isEmpty { return false }
        }
        return states.contains(tokens.count)
    }

    private static func tokens(_ part: ArraySlice<UInt8>) -> [Token]? {
        var tokens: [Token] = []
        var rest = part
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*"): if tokens.last != .anyBytes { tokens.append(.anyBytes) }
            case UInt8(ascii: "?"): tokens.append(.anyByte)
            case UInt8(ascii: "\\"): tokens.append(.byte(rest.popFirst() ?? byte))
            case UInt8(ascii: "["):
                guard let set = set(&rest) else { return nil }
                tokens.append(set)
            default: tokens.append(.byte(byte))
            }
        }
        return tokens
    }

    /// The set behind a bracket, up to the one that closes it.
    private static func set(_ rest: inout ArraySlice<UInt8>) -> Token? {
        let isExcluding = rest.first == UInt8(ascii: "!") || rest.first == UInt8(ascii: "^")
        if isExcluding { rest.removeFirst() }
        var ranges: [ClosedRange<UInt8>] = []
        while let first = rest.popFirst() {
            if first == UInt8(ascii: "]"), !ranges.isEmpty { return .set(ranges, isExcluding: isExcluding) }
            guard rest.first == UInt8(ascii: "-"), let last = rest.dropFirst().first, last != UInt8(ascii: "]") else {
                ranges.append(first...first)
                continue
            }
            rest = rest.dropFirst(2)
            guard first <= last else { return nil }
            ranges.append(first...last)
        }
        return nil
    }
}

extension PathPattern.Token {
    fileprivate func accepts(_ byte: UInt8) -> Bool {
        switch self {
        case .byte(let own): own == byte
        case .anyByte, .anyBytes: true
        case .set(let ranges, let isExcluding): ranges.contains { $0.contains(byte) } != isExcluding
        }
    }
}
