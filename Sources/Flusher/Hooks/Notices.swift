// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the desktop is to be told: gathered, and told at most once in a while.
struct Notices: Sendable, Hashable {
    enum Kind: Hashable, Sendable, CaseIterable {
        case upload
        case conflict
        case credentials
    }

    struct Message: Sendable, Hashable {
        var summary: String
        var body: String
    }

    /// The least time between two of them, in seconds.
    static let pause = 300.0
    /// How long what comes together is gathered before it is told, in seconds.
    static let gathering = 2.0
    /// How many names one of them has.
    private static let shown = 3

    private var counts: [Kind: Int] = [:]
    private var names: [String] = []
    private var firstAt: Double?
    private var toldAt: Double?

    /// Takes in something that needs a person, at monotonic seconds.
    mutating func note(_ kind: Kind, path: String, remote: String, at now: Double) {
        counts[kind, default: 0] += 1
        if firstAt == nil { firstAt = now }
        let name = path.isEmpty ? remote : path
        if names.count < Self.shown, !names.contains(name) { names.append(name) }
    }

    /// When there will be something to tell; nil when there is nothing.
    var dueAt: Double? {
        guard let firstAt else { return nil }
        return max(firstAt + Self.gathering, toldAt.map { $0 + Self.pause } ?? 0)
    }

    /// What is to be told at `now`, once; nil: nothing yet.
    mutating func take(at now: Double) -> Message? {
        guard let dueAt, dueAt <= now else { return nil }
        let message = Message(summary: summary, body: body)
        self = Notices()
        toldAt = now
        return message
    }

    private var summary: String {
        let texts: [String] = Kind.allCases.compactMap { kind in
            guard let count = counts[kind] else { return nil }
            switch kind {
            case .upload: return count == 1 ? "1 upload needs attention" : "\(count) uploads need attention"
            case .conflict: return count == 1 ? "1 conflict" : "\(count) conflicts"
            case .credentials: return "new credentials are needed"
            }
        }
        return texts.joined(separator: ", ")
    }

    private var body: String {
        let more = counts.values.reduce(0, +) - names.count
        let lines = names.map { Self.escaped($0) } + (more > 0 ? ["and \(more) more"] : [])
        return (lines + ["See: moorage uploads"]).joined(separator: "\n")
    }

    /// The body is markup, and names are not (Desktop Notifications Specification 1.2, "Markup").
    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case _ where character.isNewline: result += " "
            default: result.append(character)
            }
        }
    }
}
