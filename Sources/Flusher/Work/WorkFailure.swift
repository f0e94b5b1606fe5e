// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import ObjectStore

/// Why a piece of work did not come to its end this time.
enum WorkFailure: Error {
    /// A request failed.
    case store(StoreError)
    /// The journal or the catalog cannot be read or written.
    case journal(JournalError)
    /// A local file failed; when it does so again and again, a person has to look.
    case local(SystemError)
    /// The row changed meanwhile: look at it anew.
    case changed
    /// Something else must happen first; the row that must, if it is one.
    case blocked(NodeID?, String)
    /// Nothing can be done for this many seconds, and why.
    case later(Double, String)
    /// What it would delete or replace is still read on this machine: nothing can be done for this many seconds, and why.
    case inUse(Double, String)
    /// The local disk has no room for what must be fetched first; how many bytes have to be free.
    case diskFull(String, needed: Int64)
    /// A person is needed, and why.
    case attention(String)
}

/// How a piece of work ended.
enum WorkOutcome {
    /// Something was brought to the remote; whatever is left of the row is looked at anew.
    case progress
    case failed(WorkFailure)
}
