// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What shows where a generation has no bytes of its own.
package enum Underlay: Hashable, Sendable {
    /// Nothing: gaps read as zeros.
    case none
    /// A version of a remote object.
    case remote(ObjectKey, ObjectVersion)
    /// An older local generation, whose upload runs.
    case generation(GenerationID)
}

/// A version of a remote object whose bytes were fetched into a staging file.
package struct ContentOrigin: Hashable, Sendable {
    package let key: ObjectKey
    package let version: ObjectVersion
}

/// Which bytes of a file are where.
///
/// The mount changes a copy of it while it writes, and records it in the journal.
/// Byte `o` below `size` is in the staging file when `extents` has it, else shows
/// the underlay when `o < underlayLength`, else is zero.
package struct ContentMap: Hashable, Sendable {
    /// The file's size in bytes.
    package private(set) var size: Int64
    /// The bytes that are in the staging file; never beyond `size`.
    package private(set) var extents: ExtentSet
    /// How many bytes of the underlay show through; never above `size`.
    package private(set) var underlayLength: Int64

    /// Creates a map; parts beyond `size` are cut off.
    package init(size: Int64, extents: ExtentSet = ExtentSet(), underlayLength: Int64 = 0) {
        var extents = extents
        extents.truncate(to: size)
        self.size = size
        self.extents = extents
        self.underlayLength = min(underlayLength, size)
    }

    /// Notes that `range` was written to the staging file; the file grows when it ends behind its end.
    package mutating func write(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        extents.insert(range)
        size = max(size, range.upper)
    }

    /// Cuts the file, or extends it with zeros.
    package mutating func truncate(to newSize: Int64) {
        extents.truncate(to: newSize)
        underlayLength = min(underlayLength, newSize)
        size = newSize
    }

    /// Whether nothing but the underlay shows, in its whole `length`.
    package func isPure(length: Int64) -> Bool {
        extents.isEmpty && underlayLength == length && size == length
    }

    /// The ranges of the file that come from the underlay, in ascending order.
    package var underlayRanges: [ByteRange] { extents.gaps(in: ByteRange(0, underlayLength)) }
}

/// What is known of bytes that the disk once refused.
///
/// After a failed sync the kernel may have dropped them and still show them, and calls the next sync a success: no
/// later success counts for this content.
package enum SyncDoubt: Int64, Hashable, Sendable, CaseIterable {
    /// No sync of it has failed.
    case none = 0
    /// A sync failed; it is not sent, and every fsync of it fails.
    case failed = 1
    /// A person wants it as it reads now: it is written anew before it is sent.
    case accepted = 2
    /// Bytes of it changed on the disk after they were written; it is not sent, and every fsync of it fails.
    case damaged = 3

    /// What a person is told; nil when nobody is to be asked.
    package var attention: String? {
        switch self {
        case .none, .accepted: nil
        case .failed: Self.attention
        case .damaged: Self.attentionAfterDamage
        }
    }
}

/// Whether the journal has checksums of a content's bytes.
package enum ChecksumState: Int64, Hashable, Sendable {
    /// Of none, or of some.
    case none = 0
    /// Of all: what has none is zero.
    case complete = 1
    /// Of some, and the others are still to be taken.
    case pending = 2
}

/// One content of a file: immutable once sealed.
package struct Generation: Hashable, Sendable {
    package let id: GenerationID
    package var content: ContentMap
    package var underlay: Underlay
    /// Where bytes of it were fetched from, once nothing shows through any more: until this content has arrived, that
    /// object is their only copy at the remote, and stays.
    package var origin: ContentOrigin?
    /// No more writes: what an upload may take.
    package var isSealed: Bool
    /// The staging data and this record of it survive power loss.
    package var isSynced: Bool
    /// Counts the records of this content, so that a sync of an older one is not taken for the newest.
    package var revision: Int64
    /// Whether the disk failed to write it.
    package var doubt: SyncDoubt
    package var checksums: ChecksumState
    /// It was sealed until the call that returned this opened it: its checksums are those of before.
    package var isReopened = false
    /// The end of the bytes in its staging file that power loss goes back to; told by the call that opened it for
    /// changes, else 0.
    package var syncedEnd: Int64 = 0

    package init(
        id: GenerationID,
        content: ContentMap,
        underlay: Underlay,
        origin: ContentOrigin? = nil,
        isSealed: Bool,
        isSynced: Bool,
        revision: Int64,
        doubt: SyncDoubt = .none,
        checksums: ChecksumState = .none
    ) {
        self.id = id
        self.content = content
        self.underlay = underlay
        self.origin = origin
        self.isSealed = isSealed
        self.isSynced = isSynced
        self.revision = revision
        self.doubt = doubt
        self.checksums = checksums
    }

    package var size: Int64 { content.size }

    /// Whether it was put over an older content here.
    package var isOverContent: Bool { if case .generation = underlay { true } else { false } }

    /// Whether nothing shows any more of an older content here that it was put over.
    var isCutFromContent: Bool { isOverContent && content.underlayLength == 0 }

    /// Whether an upload may begin: power loss cannot take it back, or a person accepted what there is.
    package var isSendable: Bool { isSealed && (isSynced || doubt == .accepted) }

    /// The remote object whose bytes are exactly this content, when there is one and no local bytes are needed.
    package var wholeRemote: (key: ObjectKey, version: ObjectVersion)? {
        guard case .remote(let key, let version) = underlay, content.isPure(length: version.size) else { return nil }
        return (key, version)
    }
}
