// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
package import Journal
package import Platform

/// An open staging file, closed with its last user: removal of its name hurts no reader.
package final class StagingFile: Sendable {
    package let descriptor: FileDescriptor
    let checksums = StagedChecksums()
    private let isNameDurable = Lock(false)
    /// Why a sync failed: the kernel would call the next one a success.
    private let failure = Lock<SystemError?>(nil)

    /// Opens a generation's file; with `creating` makes it when missing.
    init(_ journal: Journal, _ generation: GenerationID, creating: Bool) throws(SystemError) {
        descriptor = try journal.openStaging(generation, creating: creating)
        keepWhole()
    }

    /// A file beside the others that nobody else can find, and that goes with its last user.
    init(withoutName journal: Journal) throws(SystemError) {
        descriptor = try FileDescriptor.open(journal.directory + "/staging", O_RDWR | moorage_O_TMPFILE)
        keepWhole()
    }

    /// Has the cache, which gets the file once it is sent, give back no part of it while it is open here.
    private func keepWhole() { descriptor.noteUse() }

    /// Forces the bytes to the disk; fails for ever once that failed.
    func synchronizeData(_ journal: Journal) throws(SystemError) {
        try failure.withLock { failure throws(SystemError) in
            if let failure { throw failure }
            do throws(SystemError) {
                try journal.synchronizeData(descriptor)
            } catch {
                failure = error
                throw error
            }
        }
    }

    /// There is not one byte in it any more: what comes now has not failed.
    func becameEmpty() {
        failure.withLock { $0 = nil }
    }

    /// Calls `sync`, which makes the file's name durable, unless it once succeeded.
    func synchronizeName(_ sync: () throws(SystemError) -> Void) throws(SystemError) {
        if isNameDurable.withLock({ $0 }) { return }
        try sync()
        isNameDurable.withLock { $0 = true }
    }
}

/// Where an upload put a content.
package struct UploadedVersion: Hashable, Sendable {
    package var key: ObjectKey
    package var version: ObjectVersion
}

/// Where the bytes of a file are: local bytes over a remote version or an older local content.
package struct FileContent: Sendable {
    /// What shows where there are no local bytes.
    package indirect enum Below: Sendable {
        case nothing
        case remote(ObjectKey, ObjectVersion)
        case content(FileContent)
    }

    /// A run of bytes that come from one place.
    package struct Segment: Sendable {
        package enum Source: Sendable {
            case staging(StagingFile)
            case remote(ObjectKey, ObjectVersion)
            case zeros
            /// What the content is known to have here has not been opened.
            case unopened
        }

        package var range: ByteRange
        package var source: Source
    }

    /// The generation this is; nil for a remote version as it is, and for the content of a removed file.
    package var generation: GenerationID?
    package var map: ContentMap
    package var staging: StagingFile?
    package var below: Below
    /// The remote version that an upload made of exactly this content, once that is known; also under a row that has been
    /// made for it since.
    package var uploaded: UploadedVersion?

    package init(generation: GenerationID?, map: ContentMap, staging: StagingFile? = nil, below: Below = .nothing) {
        self.generation = generation
        self.map = map
        self.staging = staging
        self.below = below
    }

    /// A file without a byte.
    package static let empty = FileContent(generation: nil, map: ContentMap(size: 0))

    /// A remote version as it is.
    package static func remote(_ key: ObjectKey, _ version: ObjectVersion) -> FileContent {
        FileContent(
            generation: nil,
            map: ContentMap(size: version.size, underlayLength: version.size),
            below: .remote(key, version)
        )
    }

    /// The remote version that this is, unchanged; nil when there are local bytes or another length.
    package var wholeRemote: (key: ObjectKey, version: ObjectVersion)? {
        if let uploaded { return (uploaded.key, uploaded.version) }
        guard case .remote(let key, let version) = below, map.isPure(length: version.size) else { return nil }
        return (key, version)
    }

    /// The generation this is, and those that it shows all of and nothing else.
    package var sameGenerations: [GenerationID] {
        guard let generation else { return [] }
        guard case .content(let older) = below, map.isPure(length: older.map.size) else { return [generation] }
        return [generation] + older.sameGenerations
    }

    /// Where all bytes of `range`, which lies within the file, come from; nil when ``segments(in:)`` has to tell.
    func onlySource(of range: ByteRange) -> Segment.Source? {
        if map.extents.isEmpty {
            guard range.upper <= map.underlayLength, case .remote(let key, let version) = below else { return nil }
            return .remote(key, version)
        }
        guard let staging, map.extents.contains(range) else { return nil }
        return .staging(staging)
    }

    /// Where the bytes of `range` come from, in order; `range` lies within the file.
    package func segments(in range: ByteRange) -> [Segment] {
        var result: [Segment] = []
        var position = range.lower
        for part in map.extents.intersection(range) {
            result += gap(ByteRange(position, part.lower))
            result.append(Segment(range: part, source: staging.map { .staging($0) } ?? .unopened))
            position = part.upper
        }
        return result + gap(ByteRange(position, range.upper))
    }

    private func gap(_ range: ByteRange) -> [Segment] {
        guard !range.isEmpty else { return [] }
        let split = min(max(range.lower, map.underlayLength), range.upper)
        var result: [Segment] = []
        if split > range.lower { result = under(ByteRange(range.lower, split)) }
        if split < range.upper { result.append(Segment(range: ByteRange(split, range.upper), source: .zeros)) }
        return result
    }

    private func under(_ range: ByteRange) -> [Segment] {
        switch below {
        case .nothing: [Segment(range: range, source: .unopened)]
        case .remote(let key, let version): [Segment(range: range, source: .remote(key, version))]
        case .content(let content): content.segments(in: range)
        }
    }
}
