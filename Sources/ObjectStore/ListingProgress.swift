// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Watches that the pages of a listing lead on: a server that repeats itself, or goes on saying nothing, must not
/// keep a reader for ever.
package struct ListingProgress: Sendable {
    /// Servers may give empty pages where much was deleted, but not without end.
    package static let emptyLimit = 1000

    private var last: ListingPage?
    private var emptyPages = 0

    package init() {}

    /// Takes a page that has come; false when the one behind it is not to be asked for.
    package mutating func leadsOn(_ page: ListingPage) -> Bool {
        defer { last = page }
        guard let next = page.next else { return true }
        let isEmpty = page.entries.isEmpty && page.folders.isEmpty
        emptyPages = isEmpty ? emptyPages + 1 : 0
        guard let last, !isEmpty else { return next != last?.next && emptyPages <= Self.emptyLimit }
        return next != last.next && (page.entries != last.entries || page.folders != last.folders)
    }
}
