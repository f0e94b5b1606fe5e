// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests

/// A login for one origin.
package enum HTTPCredentials: Hashable, Sendable {
    case basic(user: String, password: String)
    case bearer(token: String)

    /// The value of the Authorization field (RFC 7617, RFC 6750).
    package var fieldValue: String {
        switch self {
        case .basic(let user, let password): "Basic " + Base64.encode(Array("\(user):\(password)".utf8))
        case .bearer(let token): "Bearer \(token)"
        }
    }
}

/// The logins of a `.netrc` file.
package struct Netrc: Hashable, Sendable {
    private struct Entry: Hashable {
        /// nil: `default`.
        var machine: String?
        var login: String?
        var password: String?
    }

    private var entries: [Entry] = []

    /// Reads the file's text; what is not understood is skipped, as other clients do.
    ///
    /// A `macdef` ends with an empty line. Values may stand in double quotes, with `\\` before a quote.
    package init(text: String) {
        var isMacro = false
        var words: [String] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let found = Self.words(line)
            if isMacro {
                isMacro = !found.isEmpty
                continue
            }
            if let macro = found.firstIndex(of: "macdef") {
                words += found[..<macro]
                isMacro = true
            } else {
                words += found
            }
        }
        take(words)
    }

    private mutating func take(_ words: [String]) {
        var rest = words[...]
        while let word = rest.popFirst() {
            switch word {
            case "machine": entries.append(Entry(machine: rest.popFirst()))
            case "default": entries.append(Entry())
            case "login", "password", "account":
                guard let value = rest.popFirst(), !entries.isEmpty else { continue }
                if word == "login" { entries[entries.count - 1].login = value }
                if word == "password" { entries[entries.count - 1].password = value }
            default: continue
            }
        }
    }

    /// The login for a host name, without its port; `default` is for hosts that have none of their own.
    package func credentials(host: String) -> HTTPCredentials? {
        let name = host.lowercased()
        let found = entries.first { $0.machine?.lowercased() == name } ?? entries.first { $0.machine == nil }
        guard let found, let login = found.login else { return nil }
        return .basic(user: login, password: found.password ?? "")
    }

    /// The words of a line; `#` at the beginning of one starts a comment.
    private static func words(_ line: some StringProtocol) -> [String] {
        var words: [String] = []
        var word: String?
        var isQuoted = false
        var isEscaped = false
        for character in line {
            if isEscaped {
                word = (word ?? "") + String(character)
                isEscaped = false
            } else if character == "\\", isQuoted {
                isEscaped = true
            } else if character == "\"", isQuoted || word == nil {
                word = word ?? ""
                isQuoted.toggle()
            } else if character.isWhitespace, !isQuoted {
                if let complete = word { words.append(complete) }
                word = nil
            } else if character == "#", word == nil {
                break
            } else {
                word = (word ?? "") + String(character)
            }
        }
        return words + [word].compactMap { $0 }
    }
}
