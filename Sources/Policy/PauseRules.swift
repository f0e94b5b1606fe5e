// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What a person holds back by its place: a volume, a folder or a path, with all that is or comes below it.
///
/// Each place is held once, however often that was asked for; places inside each other count one by one, so that letting
/// the outer one go leaves the inner one held.
package struct PauseRules: Hashable, Sendable {
    package struct Rule: Hashable, Sendable {
        /// The root for a whole volume.
        package var path: ObjectKey
        package var since: Timestamp

        package init(path: ObjectKey, since: Timestamp) {
            self.path = path
            self.since = since
        }
    }

    /// How many places may be held at once.
    package static let limit = 10_000

    private var times: [ObjectKey: Timestamp] = [:]

    package init(_ rules: [Rule] = []) {
        for rule in rules.prefix(Self.limit) { times[rule.path] = rule.since }
    }

    package var isEmpty: Bool { times.isEmpty }

    /// All of them, by path.
    package var all: [Rule] { times.map { Rule(path: $0.key, since: $0.value) }.sorted { $0.path < $1.path } }

    /// Holds a place; false when there are too many.
    ///
    /// One that is held stays as it is.
    package mutating func hold(_ path: ObjectKey, at now: Timestamp) -> Bool {
        if times[path] != nil { return true }
        guard times.count < Self.limit else { return false }
        times[path] = now
        return true
    }

    /// Lets a place go, and nothing but it; false when it was not held itself.
    package mutating func letGo(_ path: ObjectKey) -> Bool { times.removeValue(forKey: path) != nil }

    /// Lets everything below a path go, the path too.
    package mutating func letGoAll(below path: ObjectKey) -> [Rule] {
        let gone = all.filter { $0.path.isInside(path) }
        for rule in gone { times[rule.path] = nil }
        return gone
    }

    /// What holds a path, the outermost first.
    package func holding(_ path: ObjectKey) -> [Rule] {
        guard !times.isEmpty else { return [] }
        var found: [Rule] = []
        var place = path
        while true {
            if let since = times[place] { found.append(Rule(path: place, since: since)) }
            guard !place.isRoot else { return found.reversed() }
            place = place.parent
        }
    }
}
