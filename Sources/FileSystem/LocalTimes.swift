// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// The times of an inode that no object keeps: they last as long as the kernel, or an open handle, keeps the inode.
///
/// What nothing is known of is taken from the time of modification, which is kept.
struct LocalTimes: Sendable {
    /// When a name in the folder was made or removed last: no request is spent on telling the remote.
    private var namesChanged: Timestamp?
    /// The last change of status that was none of content, and the time of modification there was then.
    private var statusChanged: (time: Timestamp, modified: Timestamp)?
    private var accessed: Timestamp?

    /// How long after the last read another one shows in any case, in seconds (relatime of mount(8)).
    private static let longestUnnoticed = 86_400.0

    /// A name in the folder was made or removed.
    mutating func noteNames(at now: Timestamp) {
        namesChanged = max(now, namesChanged ?? now)
        statusChanged = nil
    }

    /// Attributes or the name were changed; `modified` is the stored time of modification afterwards.
    ///
    /// With `isExplicit` that time was set: what happened in a folder before does not count any more.
    mutating func noteStatus(at now: Timestamp, modified: Timestamp, isExplicit: Bool = false) {
        if isExplicit { namesChanged = nil }
        statusChanged = (now, self.modified(modified))
    }

    /// utimensat(2) set the time of access.
    mutating func setAccessed(_ time: Timestamp) { accessed = time }

    /// The time of modification is about to change: the one of access, which it may stand for, does not.
    mutating func keepAccessed(modified: Timestamp) { accessed = accessed(modified) }

    /// Content was read: shown if it was not read since its last change, or not for a day.
    mutating func noteRead(at now: Timestamp, modified: Timestamp) {
        let last = accessed(modified)
        if last <= self.modified(modified) || last <= changed(modified)
            || last.advanced(bySeconds: Self.longestUnnoticed) <= now
        {
            accessed = now
        }
    }

    /// The time of modification to show for a stored one.
    func modified(_ stored: Timestamp) -> Timestamp { max(stored, namesChanged ?? stored) }

    /// The time of the last change of status to show.
    func changed(_ stored: Timestamp) -> Timestamp {
        let modified = modified(stored)
        guard let statusChanged else { return modified }
        // Written to since, which is a change too.
        return statusChanged.modified == modified ? statusChanged.time : max(statusChanged.time, modified)
    }

    /// The time of the last access to show.
    func accessed(_ stored: Timestamp) -> Timestamp { accessed ?? modified(stored) }
}

extension Inode.State {
    /// Notes a change of attributes or of the name.
    mutating func noteStatusChange(isTimeSet: Bool = false) {
        times.noteStatus(at: .now(), modified: attributes.modified, isExplicit: isTimeSet)
    }

    /// Notes that the content was changed.
    mutating func noteContentChange() {
        keepAccessTime()
        attributes.modified = .now()
    }

    /// Notes that the time of modification is about to change.
    mutating func keepAccessTime() { times.keepAccessed(modified: attributes.modified) }

    /// Notes that the content is about to be read: who opens something only to read it does so.
    mutating func noteRead() { times.noteRead(at: .now(), modified: attributes.modified) }
}
