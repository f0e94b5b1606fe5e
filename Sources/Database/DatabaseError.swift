// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CSQLite
internal import Glibc

/// Why an operation on local state failed.
package struct DatabaseError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The class of a failure, as far as a caller can act on it.
    package enum Kind: Hashable, Sendable {
        /// Another process held the write lock for longer than the busy timeout.
        case busy
        /// The disk or the quota is full.
        case full
        /// The file is damaged or is no database.
        case corrupt
        /// The file or its file system cannot be written.
        case readOnly
        /// A read, write or sync failed.
        case io
        /// A unique or check constraint was hit: what was to be created exists.
        case constraint
        /// The row the caller named is gone, or no longer in the state the call is for.
        case notFound
        /// What the call needs to know of something else was not there: to be asked for first.
        case incomplete
        /// The file was written by a newer version of this program.
        case newerFormat
        /// Anything else, above all mistakes of ours.
        case other
    }

    package let kind: Kind
    /// SQLite's extended result code, 0 when the error is not SQLite's.
    package let code: Int32
    /// What happened, without any content of rows.
    package let message: String

    /// A failed system call on the files of local state.
    package init(system error: SystemError) {
        let kind: Kind =
            switch error.code {
            case ENOSPC, EDQUOT: .full
            case EROFS, EACCES, EPERM: .readOnly
            default: .io
            }
        self.init(kind, error.description)
    }

    package init(_ kind: Kind, code: Int32 = 0, _ message: String) {
        self.kind = kind
        self.code = code
        self.message = message
    }

    /// Whether the machine has failed and not the data: the next look may find everything sound.
    package var isOfMachine: Bool {
        switch kind {
        case .io, .full, .readOnly, .busy: true
        case .other: [SQLITE_NOMEM, SQLITE_INTERRUPT].contains(code & 0xFF)
        default: false
        }
    }

    package var description: String { code == 0 ? message : "\(message) (SQLite \(code))" }
}
