// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Database
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform
internal import ResumableUpload

/// Fills the gaps of a content that is to be sent: what only the remote or an older generation has.
struct Hydration {
    let work: RowWork

    /// How many bytes are fetched between two records of it.
    private static let step: Int64 = 64 << 20
    /// Space left free on the local disk, in bytes.
    private static let reserve: Int64 = 64 << 20

    /// The whole content of a transfer in one local file.
    func complete(_ transfer: Transfer) throws(WorkFailure) -> UploadContent {
        guard let id = transfer.generation,
            var generation = try work.journal({ (journal) throws(JournalError) in try journal.generation(id) })
        else { throw .changed }
        if generation.doubt == .accepted {
            // What went out before is not of the same content.
            if transfer.upload != nil || transfer.phase == .committing {
                try work.restart(transfer, method: transfer.method)
            }
            generation = try rewrite(generation)
        }
        guard generation.size > 0 else {
            if generation.underlay != .none {
                try work.journal { (journal) throws(JournalError) in _ = try journal.hydrated(id, []) }
            }
            return UploadContent(nil, size: 0)
        }
        let file = try openStaging(generation)
        if generation.underlay != .none {
            while let range = generation.content.underlayRanges.first {
                try checkSpace(generation)
                let piece = ByteRange(range.lower, min(range.upper, range.lower + Self.step))
                generation = try fill(piece, of: generation, file)
            }
            // Nothing of it shows, perhaps from the beginning: once its own bytes are safe, others need not wait for it.
            if generation.underlay != .none {
                try working(on: generation) { () throws(SystemError) in try file.synchronizeData() }
                let own = generation.content.extents.ranges
                try work.journal { (journal) throws(JournalError) in _ = try journal.hydrated(id, own) }
            }
        }
        let check = try work.journal { (journal) throws(JournalError) in try journal.check(of: generation) }
        return UploadContent(file, size: generation.size, check: check)
    }

    /// The content of a transfer with only those bytes here that are sent, when the server can copy the others; nil when
    /// all of it is to be sent.
    func composed(_ transfer: Transfer, partSize: Int64?) throws(WorkFailure) -> (UploadContent, UploadSource)? {
        guard let id = transfer.generation,
            var generation = try work.journal({ (journal) throws(JournalError) in try journal.generation(id) }),
            generation.doubt == .none, case .remote(let key, let version) = generation.underlay,
            let composition = composition(of: transfer, generation, version, partSize)
        else { return nil }
        let file = try openStaging(generation)
        for range in composition.sentRanges {
            try checkSpace(generation, for: range)
            while let gap = generation.content.underlayRanges.lazy.compactMap({ $0.intersection(range) }).first {
                let piece = ByteRange(gap.lower, min(gap.upper, gap.lower + Self.step))
                generation = try fill(piece, of: generation, file)
            }
        }
        let check = try work.journal { (journal) throws(JournalError) in try journal.check(of: generation) }
        let source = UploadSource(key: key, version: version, composition: composition)
        return (UploadContent(file, size: generation.size, check: check), source)
    }

    /// That of the upload that was begun, else a new one.
    private func composition(
        of transfer: Transfer,
        _ generation: Generation,
        _ version: ObjectVersion,
        _ partSize: Int64?
    ) -> PartComposition? {
        if let begun = transfer.composition { return PartComposition(encoded: begun, size: generation.size) }
        let there = ByteRange(0, version.size)
        return PartComposition.plan(
            size: generation.size,
            remote: generation.content.underlayRanges.compactMap { $0.intersection(there) },
            partSize: PartLayout.partSize(for: generation.size, wanted: partSize)
        )
    }

    /// Puts content that the disk failed to write, and a person accepted, on the disk once more.
    private func rewrite(_ generation: Generation) throws(WorkFailure) -> Generation {
        var failure: JournalError?
        do throws(JournalError) {
            try work.session.journal.rewriteAccepted(generation.id)
        } catch {
            failure = error
        }
        if let failure, failure.kind == .io { throw .attention("\(SyncDoubt.attention) (\(failure))") }
        return try work.journal { (journal) throws(JournalError) in
            if let failure { throw failure }
            guard let new = try journal.generation(generation.id) else {
                throw JournalError(.notFound, "journal: generation \(generation.id) is gone")
            }
            return new
        }
    }

    /// Opens the staging file, as long as the content is: what no extent covers reads as zeros.
    private func openStaging(_ generation: Generation) throws(WorkFailure) -> FileDescriptor {
        let local = generation.content.extents.upperBound
        var length: Int64 = 0
        do throws(SystemError) {
            let file = try work.session.journal.openStaging(generation.id, creating: local == 0)
            length = try file.status().size
            if length >= local {
                if length < generation.size { try file.truncate(to: generation.size) }
                return file
            }
        } catch {
            guard error.code == ENOENT else { throw failure(error, generation) }
        }
        // Never sent as zeros.
        throw .attention("its local data is missing or cut short: \(length) bytes instead of \(local)")
    }

    /// `range` is what is to be filled, if not all.
    private func checkSpace(_ generation: Generation, for range: ByteRange? = nil) throws(WorkFailure) {
        let free = (try? Files.freeSpace(at: work.session.places.state)) ?? .max
        guard free < Self.neededSpace(generation, for: range) else { return }
        throw outOfSpace(generation, "\(free) are free")
    }

    /// What has to be free before the rest of a content, or of a range of it, is fetched, in bytes.
    private static func neededSpace(_ generation: Generation, for range: ByteRange? = nil) -> Int64 {
        let range = range ?? ByteRange(0, generation.size)
        return generation.content.underlayRanges.reduce(reserve) { $0 + ($1.intersection(range)?.count ?? 0) }
    }

    private func outOfSpace(_ generation: Generation, _ reason: String) -> WorkFailure {
        let needed = Self.neededSpace(generation)
        let place = work.session.places.state
        return .diskFull(
            "its rest is fetched to this disk before it is sent, for which \(needed) bytes must be free: "
                + "\(reason); make room in \(place)",
            needed: needed
        )
    }

    /// What a failed call on a staging file means to the work.
    private func failure(_ error: SystemError, _ generation: Generation) -> WorkFailure {
        let isFull = error.code == ENOSPC || error.code == EDQUOT
        return isFull ? outOfSpace(generation, error.reason) : .local(error)
    }

    /// Fills one range, makes it durable, and records it.
    private func fill(
        _ range: ByteRange,
        of generation: Generation,
        _ file: borrowing FileDescriptor
    ) throws(WorkFailure) -> Generation {
        let segments = try work.journal { (journal) throws(JournalError) in
            try journal.segments(of: generation, in: range)
        }
        for segment in segments {
            switch segment.source {
            case .staging(let older) where older != generation.id:
                try copy(segment.range, from: older, to: file, generation)
            case .staging, .zeros: continue
            case .remote(let key, let version):
                if let error = try fetch(key, version, segment.range, to: file) { throw failure(error, generation) }
            }
        }
        try working(on: generation) { () throws(SystemError) in
            try file.synchronizeData()
            // The file may be new: its name must survive with the record of its bytes.
            try work.session.journal.synchronizeStagingDirectory()
        }
        let checksums = try checksums(of: generation, with: range, file)
        return try work.journal { (journal) throws(JournalError) in
            try journal.hydrated(generation.id, [range], checksums: checksums)
        }
    }

    /// The checksums of what is in the file now, `range` included; nil where nobody knows those of the rest.
    private func checksums(
        of generation: Generation,
        with range: ByteRange,
        _ file: borrowing FileDescriptor
    ) throws(WorkFailure) -> ChecksumList? {
        var extents = generation.content.extents
        guard generation.checksums == .complete || extents.isEmpty else { return nil }
        var list = try work.journal { (journal) throws(JournalError) in try journal.checksums(of: generation.id) }
        extents.insert(range)
        var outcome = ChecksumList.Outcome.complete
        try working(on: generation) { () throws(SystemError) in
            var budget = Int64.max
            // Of what a hole was before, the checksum is still missing.
            outcome = try list.complete(ExtentSet(range), within: extents, from: file, budget: &budget)
        }
        if case .damaged(let block) = outcome {
            throw try work.damaged(generation.id, at: ChecksumList.range(of: block).lower)
        }
        return list
    }

    private func copy(
        _ range: ByteRange,
        from older: GenerationID,
        to file: borrowing FileDescriptor,
        _ generation: Generation
    ) throws(WorkFailure) {
        let check = try work.journal { (journal) throws(JournalError) in
            try journal.generation(older).flatMap { (older) throws(JournalError) in
                try journal.checkOfOwnBytes(of: older)
            }
        }
        do throws(WorkFailure) {
            try working(on: generation) { () throws(SystemError) in
                try copy(range, from: older, check, to: file)
            }
        } catch {
            if let place = check?.damagedAt { throw try work.damaged(older, at: place) }
            throw error
        }
    }

    private func copy(
        _ range: ByteRange,
        from generation: GenerationID,
        _ check: ContentCheck?,
        to file: borrowing FileDescriptor
    ) throws(SystemError) {
        let source = try work.session.journal.openStaging(generation, creating: false)
        let reader = CheckedReader(source.raw, check)
        let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(min(range.count, 1 << 20)), alignment: 4096)
        defer { chunk.deallocate() }
        var offset = range.lower
        while offset < range.upper {
            let piece = UnsafeMutableRawBufferPointer(rebasing: chunk.prefix(Int(range.upper - offset)))
            try reader.read(into: piece, at: offset)
            try file.write(UnsafeRawBufferPointer(piece), at: offset)
            offset += Int64(piece.count)
        }
    }

    private func working(on generation: Generation, _ body: () throws(SystemError) -> Void) throws(WorkFailure) {
        do throws(SystemError) {
            try body()
        } catch {
            throw failure(error, generation)
        }
    }

    /// Fetches a range; returns what went wrong with the local file, if anything did.
    private func fetch(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        _ range: ByteRange,
        to file: borrowing FileDescriptor
    ) throws(WorkFailure) -> SystemError? {
        let sink = FileSink(descriptor: file.raw)
        do throws(WorkFailure) {
            try work.remote { (store) throws(StoreError) in
                let fetch = store.fetch(key, version: version, range: range, into: sink)
                let token = work.job.cancellation.onCancel { fetch.cancel() }
                defer { work.job.cancellation.removeHandler(token) }
                try sink.wait()
            }
            return sink.failure
        } catch {
            guard case .store(let cause) = error else { throw error }
            switch cause.cause {
            case .preconditionFailed, .notFound: return try takeFromCache(key, version, range, to: file)
            default: throw error
            }
        }
    }

    private static func write(_ bytes: [UInt8], to raw: Int32, at offset: Int64) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            done += try retryingOnInterrupt("pwrite") {
                bytes.withUnsafeBytes {
                    pwrite(raw, $0.baseAddress.map { $0 + done }, bytes.count - done, Int(offset) + done)
                }
            }
        }
    }

    /// Takes bytes of a version that the remote has no more from what is left of its readers; as ``fetch(_:_:_:to:)``.
    private func takeFromCache(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        _ range: ByteRange,
        to file: borrowing FileDescriptor
    ) throws(WorkFailure) -> SystemError? {
        // It may be what was sent a moment ago.
        try work.journal { (journal) throws(JournalError) in try work.session.adoptFinished() }
        let reader = work.session.cache.reader(of: key, version: version)
        var offset = range.lower
        while offset < range.upper {
            let piece = ByteRange(offset, min(range.upper, offset + 1 << 20))
            let bytes: [UInt8]
            do throws(StoreError) {
                bytes = try reader.bytes(piece)
            } catch {
                throw .attention(
                    "\(key), which part of it comes from, changed or went away at the remote, and is not cached"
                )
            }
            do throws(SystemError) {
                try Self.write(bytes, to: file.raw, at: offset)
            } catch {
                return error
            }
            offset = piece.upper
        }
        return nil
    }
}

/// Writes what is fetched into a file, at its own offsets.
private final class FileSink: RangeSink {
    private struct State {
        var failure: SystemError?
        var result: Result<Void, StoreError>?
    }

    /// Open until ``wait()`` has returned.
    private let descriptor: Int32
    private let state = Monitor(State())

    init(descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// The error of the first write that failed; nothing is written after it.
    var failure: SystemError? { state.inspect { $0.failure } }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        guard failure == nil else { return }
        var done = 0
        while done < bytes.count {
            let count = pwrite(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, Int(offset) + done)
            if count < 0 {
                if errno == EINTR { continue }
                let error = SystemError.last("pwrite", "staging")
                return state.update { $0.failure = error }
            }
            done += count
        }
    }

    func finished(_ result: Result<Void, StoreError>) {
        state.update { $0.result = result }
    }

    func wait() throws(StoreError) {
        try (state.wait { $0.result } ?? .success(())).get()
    }
}
