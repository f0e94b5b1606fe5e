// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Glibc
package import Platform

/// What a look at the bytes of a sealed content gave.
package struct TakenChecksums: Sendable {
    var list: ChecksumList
    var outcome: ChecksumList.Outcome
}

/// Checksums of what waits to be sent.
///
/// They are taken of sealed content only, and stored where its record is still the one that was read: what was written
/// since has another.
extension Journal {
    /// What the group sync reads of a file before it is acknowledged as safe, in bytes, and of all of them.
    private static let readAtOnce: Int64 = 8 << 20
    private static let readInAll: Int64 = 64 << 20
    private static let filesAtOnce = 256

    /// The checksums of a generation's bytes as they were sealed, or were when it was opened again just now.
    package func checksums(of id: GenerationID) throws(JournalError) -> ChecksumList {
        try read { tables throws(JournalError) in try tables.checksums(of: id).list }
    }

    /// Looks at the files of contents that were just synced, as far as that is quickly done.
    func takeChecksums(of generations: [Generation]) throws(JournalError) -> [GenerationID: TakenChecksums] {
        var taken: [GenerationID: TakenChecksums] = [:]
        var budget = Self.readInAll
        for generation in generations where budget > 0 && !generation.content.extents.isEmpty {
            taken[generation.id] = try takeChecksums(of: generation, budget: &budget, atMost: Self.readAtOnce)
        }
        return taken
    }

    /// Takes checksums that the group sync had no time for; true when there is more to do.
    ///
    /// One step: it reads no more than can be waited for.
    @discardableResult
    package func completeChecksums() throws(JournalError) -> Bool {
        let waiting = try uncheckedGenerations()
        guard !waiting.isEmpty else { return false }
        var budget = Self.readInAll
        var results: [(Generation, TakenChecksums)] = []
        for generation in waiting where budget > 0 {
            guard let taken = try takeChecksums(of: generation, budget: &budget, atMost: .max) else { continue }
            results.append((generation, taken))
        }
        try write { tables throws(JournalError) in
            for (generation, taken) in results {
                guard let current = try tables.generation(generation.id), current.isSealed,
                    current.revision == generation.revision, current.checksums == .pending
                else { continue }
                try tables.noteChecksums(taken, of: current)
            }
        }
        return try !uncheckedGenerations().isEmpty
    }

    /// Notes that bytes of a content are not what was written: it is not sent, and its rows wait for a person.
    package func noteDamage(of id: GenerationID, _ attention: String) throws(JournalError) {
        try write(durable: true) { tables throws(JournalError) in try tables.noteDamage(id, attention) }
    }

    private func uncheckedGenerations() throws(JournalError) -> [Generation] {
        try read { tables throws(JournalError) in try tables.uncheckedGenerations(limit: Self.filesAtOnce) }
    }

    /// Nil when more than `limit` bytes would have to be read.
    private func takeChecksums(
        of generation: Generation,
        budget: inout Int64,
        atMost limit: Int64
    ) throws(JournalError) -> TakenChecksums? {
        var list = try checksums(of: generation.id)
        let extents = generation.content.extents
        if limit < .max, list.missing(extents).reduce(0, { $0 + $1.count }) > limit { return nil }
        do throws(SystemError) {
            let file = try openStaging(generation.id, creating: false)
            let outcome = try list.complete(extents, from: file, budget: &budget)
            return TakenChecksums(list: list, outcome: outcome)
        } catch {
            // Gone with its row, or cut, or not readable: whoever sends it finds out.
            Log.debug("journal", "no checksums of staging file \(generation.id): \(error)")
            return TakenChecksums(list: list, outcome: .unreadable)
        }
    }
}

extension ChecksumList {
    package enum Outcome: Hashable, Sendable {
        /// What has no checksum is a hole.
        case complete
        /// The budget did not reach.
        case unfinished
        case unreadable
        /// A block is not what it was when its checksum was taken.
        case damaged(Int64)
    }

    /// Holes are looked for where more than this is missing, in bytes.
    private static let worthSeeking: Int64 = 8 << 20

    /// Takes the checksums that are missing of `wanted`, by whole blocks of the bytes that a file has (`extents`, or just
    /// those); of a block that has one it is compared first.
    ///
    /// `budget` is how many bytes may be read, and loses what was.
    package mutating func complete(
        _ wanted: ExtentSet,
        within extents: ExtentSet? = nil,
        from file: borrowing FileDescriptor,
        budget: inout Int64
    ) throws(SystemError) -> Outcome {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(Self.pieceSize), alignment: 4096)
        defer { buffer.deallocate() }
        let extents = extents ?? wanted
        for gap in missing(wanted) {
            var position = gap.lower
            while position < gap.upper {
                if gap.upper - position > Self.worthSeeking {
                    guard let data = try file.next(.data, from: position), data < gap.upper else { break }
                    position = data
                }
                guard budget > 0 else { return .unfinished }
                let block = position / Self.blockSize
                let parts = extents.intersection(Self.range(of: block))
                guard try take(block, parts, from: file.raw, buffer) else { return .damaged(block) }
                budget -= parts.reduce(0) { $0 + $1.count }
                position = Self.range(of: block).upper
            }
        }
        return .complete
    }

    private mutating func take(
        _ block: Int64,
        _ parts: [ByteRange],
        from descriptor: Int32,
        _ buffer: UnsafeMutableRawBufferPointer
    ) throws(SystemError) -> Bool {
        if let known = checksum(of: block) {
            guard try Self.checksum(of: covered(in: block), in: descriptor, buffer) == known else { return false }
        }
        set(block, parts, try Self.checksum(of: parts, in: descriptor, buffer))
        return true
    }

    /// The checksum of parts of a block, read from a file through a buffer of ``pieceSize`` bytes.
    package static func checksum(
        of parts: [ByteRange],
        in descriptor: Int32,
        _ buffer: UnsafeMutableRawBufferPointer
    ) throws(SystemError) -> UInt64 {
        var checksum: UInt64 = 0
        for part in parts {
            try forEachPiece(of: part) { piece throws(SystemError) in
                let memory = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(piece.count)])
                guard try readAll(descriptor, into: memory, at: piece.lower) == memory.count else {
                    throw SystemError.make(EIO, "pread", "staging data shorter than recorded")
                }
                checksum = combine(checksum, piece.lower, UnsafeRawBufferPointer(memory))
            }
        }
        return checksum
    }
}

extension Tables {
    /// Notes what a look at a sealed, synced content gave; nil: there was no time for one.
    func noteChecksums(_ taken: TakenChecksums?, of generation: Generation) throws(JournalError) {
        guard !generation.content.extents.isEmpty else { return }
        guard let taken else { return try set(.pending, of: generation) }
        try store(taken.list, of: generation.id)
        switch taken.outcome {
        case .complete: try set(.complete, of: generation)
        case .unfinished: try set(.pending, of: generation)
        case .unreadable: try set(.none, of: generation)
        case .damaged(let block):
            let place = ChecksumList.range(of: block).lower
            Log.error("journal", "staging file \(generation.id): the bytes from \(place) on are not what was written")
            try noteDamage(generation.id, SyncDoubt.attentionAfterDamage)
        }
    }

    func noteDamage(_ id: GenerationID, _ attention: String) throws(JournalError) {
        try connection.run(
            "UPDATE generation SET doubt = ?, is_synced = 0 WHERE id = ? AND doubt = 0",
            [.integer(SyncDoubt.damaged.rawValue), .integer(id.value)]
        )
        try connection.run(
            "UPDATE node SET attention = ? WHERE generation = ?",
            [.text(attention), .integer(id.value)]
        )
    }

    /// The same for a new file, whose row has just been made as it is sealed.
    func noteChecksums(of id: GenerationID, sealed list: ChecksumList) throws(JournalError) {
        if !list.changedRows.isEmpty { try store(list, of: id) }
    }

    /// Keeps what the writer of a content that is being sealed knows of its bytes; `isSynced`: no sync follows.
    func noteSealed(_ old: Generation, _ content: ContentMap, _ list: ChecksumList, isSynced: Bool) throws(JournalError)
    {
        // Of one that was never recorded there are no rows.
        if old.revision > 0 || !list.changedRows.isEmpty { try store(list, of: old.id) }
        if isSynced, !content.extents.isEmpty { try set(.pending, of: old) }
    }
}
