// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

extension Journal {
    /// Removes a file, link or empty folder: what the remote has there, or may yet get, is deleted later.
    ///
    /// For a folder the caller has made sure that nothing lives in it, here or at the remote.
    package func remove(
        at path: ObjectKey,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) {
        try change(at: now) { change throws(JournalError) in
            let remote = try remote()
            try change.leaveLinks(below: path)
            try change.bury(path, try change.vacate(path, remote))
            try change.tables.forgetConflict(path)
        }
    }
}
