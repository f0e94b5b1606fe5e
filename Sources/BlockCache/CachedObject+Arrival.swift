// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import ObjectStore
internal import Platform
internal import Synchronization

/// What fetches report, on the writer's thread.
extension CachedObject {
    /// What is shorter costs as much as it saves, in bytes.
    private static let leastReserved: Int64 = 128 << 10

    /// How many of the arrived bytes the fetch still answers for.
    func wantedBytes(of fetch: BlockFetch, offset: Int64, count: Int) -> Int {
        let (wanted, handle) = monitor.inspect { _ -> (Int, (any RangeFetch)?) in
            if fetch.progress.diskFailed { return (0, fetch.progress.handle) }
            let wanted = max(0, min(Int64(count), fetch.progress.limit - offset))
            return (Int(wanted), wanted == 0 ? fetch.progress.handle : nil)
        }
        handle?.cancel()
        return wanted
    }

    /// Writes bytes of a fetch that follow each other, and the slots of the blocks they complete, into the file.
    ///
    /// `isDirect`: past the kernel's memory where that can be, as readers find the bytes elsewhere.
    func put(
        _ buffers: [ArrivalBuffer],
        completing blocks: (first: Int, checksums: [UInt64]),
        isDirect: Bool
    ) throws(SystemError) {
        room.took(buffers.reduce(0) { $0 + Int64($1.count) })
        var rest = buffers[...]
        while let first = rest.first {
            let isPastMemory = isDirect && first.isDirect
            let run = rest.prefix { (isDirect && $0.isDirect) == isPastMemory }
            try write(run, isDirect: isPastMemory)
            rest = rest.dropFirst(run.count)
        }
        // Slots that cannot be written only cost a fetch after the next start.
        try? file.storeSlots(from: blocks.first, blocks.checksums)
        condition.stored()
    }

    private func write(_ run: ArraySlice<ArrivalBuffer>, isDirect: Bool) throws(SystemError) {
        if isDirect, let first = run.first,
            try direct.write(run.map { $0.bytes }, at: first.offset, of: file.descriptor)
        {
            return
        }
        reserve(run)
        for buffer in run { try file.descriptor.write(buffer.bytes, at: buffer.offset) }
    }

    /// Has the file system find the space of what is written next in one go: where it does so for each page by itself, to
    /// write them takes it nearly twice as long.
    ///
    /// It need not be able to: a disk that is full says so when it is written to.
    private func reserve(_ run: ArraySlice<ArrivalBuffer>) {
        guard let first = run.first, let last = run.last else { return }
        let range = ByteRange(first.offset, last.range.upper)
        if range.count >= Self.leastReserved { try? file.descriptor.allocate(range, keepingSize: true) }
    }

    /// Bytes of the fetch are in the file up to `position`; blocks among them are complete.
    ///
    /// When it is ending, the next one that is only wanted ahead begins. `kept`: they are to be read from memory first.
    func landed(
        _ fetch: BlockFetch,
        upTo position: Int64,
        completing blocks: (first: Int, checksums: [UInt64]),
        isEnding: Bool,
        kept: [ArrivalBuffer]
    ) {
        let (isAwaited, next) = monitor.inspect { state -> (Bool, [BlockFetch]) in
            state.unmeasured += position - fetch.progress.position
            fetch.progress.position = position
            // Within the monitor, so that what expires at this moment is either not taken in or forgotten afterwards.
            state.recent.insert(writer.recent.held(of: kept))
            for (index, checksum) in blocks.checksums.enumerated() {
                state.blocks[blocks.first + index] = .stored
                state.checksums[blocks.first + index] = checksum
            }
            let isNew = isEnding && !fetch.progress.isEnding
            fetch.progress.isEnding = isEnding
            return (state.waiters.contains { !isPending($0, state) }, isNew ? startQueued(&state) : [])
        }
        if isAwaited { monitor.update { _ in } }
        start(next)
    }

    func diskFailed(_ fetch: BlockFetch, _ error: SystemError) {
        condition.failed(error)
        let handle = monitor.update { _ in
            fetch.progress.diskFailed = true
            return fetch.progress.handle
        }
        handle?.cancel()
    }

    func ended(_ fetch: BlockFetch, _ result: Result<Void, StoreError>) {
        let next = monitor.update { state -> [BlockFetch] in
            fetch.progress.result = result
            fetch.progress.handle = nil
            state.fetches.removeAll { $0 === fetch }
            if case .failure(let error) = result, error.cause != .cancelled { state.queue = [] }
            if fetch.progress.diskFailed { state.queue = [] }
            return startQueued(&state)
        }
        if next.isEmpty, monitor.inspect({ $0.fetches.isEmpty }) { direct.close() }
        start(next)
    }
}

/// Eviction.
extension CachedObject {
    /// Gives back disk space of blocks away from the last read, unless the object is being read from this instant or held.
    ///
    /// Returns the number of bytes.
    func releaseDistantBlocks() -> Int64 {
        monitor.inspect { releaseDistantBlocks(&$0) }
    }

    /// Whether the file has a second name, whoever gave it that.
    var isHeld: Bool { FileStamp(file.descriptor.raw)?.links ?? 0 > 1 }

    private func releaseDistantBlocks(_ state: inout State) -> Int64 {
        // A snapshot holds the space all the same. Within the monitor, so that who holds the file sees what went before.
        // Who had it open before it was sent reads it without asking which blocks are there.
        guard readers.load(ordering: .acquiring) == 0, sparing.load(ordering: .acquiring) == 0, snapshot.load() == nil,
            !isHeld, !file.descriptor.isNotedInUse
        else { return 0 }
        var released: Int64 = 0
        let near = ByteRange(max(0, state.lastRead - (16 << 20)), state.lastRead + (64 << 20))
        let busy = state.fetches.map { $0.owned } + [near]
        var first: Int?
        for block in 0...state.blocks.count {
            let isReleased =
                block < state.blocks.count && state.blocks[block] != .missing
                && !busy.contains { $0.intersection(geometry.range(of: block)) != nil }
            if isReleased {
                state.blocks[block] = .missing
                state.checksums[block] = 0
                first = first ?? block
            } else if let begin = first {
                released += release(begin..<block)
                first = nil
            }
        }
        return released
    }

    /// Gives back the space of neighbouring blocks that count as missing.
    ///
    /// Returns how much it was, in bytes.
    private func release(_ blocks: Range<Int>) -> Int64 {
        try? file.clearSlots(of: blocks)
        let lower = geometry.range(of: blocks.lowerBound).lower
        let count = geometry.range(of: blocks.upperBound - 1).upper - lower
        let mode = moorage_FALLOC_FL_PUNCH_HOLE | moorage_FALLOC_FL_KEEP_SIZE
        _ = moorage_fallocate(file.descriptor.raw, mode, lower, count)
        return count
    }

    /// The bytes written since this was asked last.
    func takeUnmeasured() -> Int64 {
        monitor.inspect { state in
            defer { state.unmeasured = 0 }
            return state.unmeasured
        }
    }
}
