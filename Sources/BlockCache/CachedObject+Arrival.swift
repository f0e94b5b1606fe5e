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

    /// Writes bytes of a fetch, and the slots of the blocks they complete, into the file.
    func put(
        _ bytes: UnsafeRawBufferPointer,
        at offset: Int64,
        completing blocks: (first: Int, checksums: [UInt64])
    ) throws(SystemError) {
        try change { () throws(SystemError) in
            try file.descriptor.write(bytes, at: offset)
            // Slots that cannot be written only cost a fetch after the next start.
            try? file.storeSlots(from: blocks.first, blocks.checksums)
        }
    }

    /// Bytes of the fetch are in the file up to `position`; blocks among them are complete.
    ///
    /// When it is ending, the next one that is only wanted ahead begins.
    func landed(
        _ fetch: BlockFetch,
        upTo position: Int64,
        completing blocks: (first: Int, checksums: [UInt64]),
        isEnding: Bool
    ) {
        let (isAwaited, next) = monitor.inspect { state -> (Bool, [BlockFetch]) in
            state.unmeasured += position - fetch.progress.position
            if fetch.progress.isDropped { return (false, []) }
            fetch.progress.position = position
            for (index, checksum) in blocks.checksums.enumerated() {
                state.blocks[blocks.first + index] = .verified
                state.checksums[blocks.first + index] = checksum
            }
            let isNew = isEnding && !fetch.progress.isEnding
            fetch.progress.isEnding = isEnding
            return (state.waiters.contains { !Self.isPending($0, state) }, isNew ? startQueued(&state) : [])
        }
        if isAwaited { monitor.update { _ in } }
        start(next)
    }

    func diskFailed(_ fetch: BlockFetch, _ error: SystemError) {
        Log.warning("cache", "cannot keep \(key): \(error); reading without the cache")
        let handle = monitor.update { _ in
            fetch.progress.diskFailed = true
            return fetch.progress.handle
        }
        handle?.cancel()
    }

    func ended(_ fetch: BlockFetch, _ result: Result<Void, StoreError>) {
        let next = monitor.update { state -> [BlockFetch] in
            fetch.progress.result = result
            state.fetches.removeAll { $0 === fetch }
            if case .failure(let error) = result, error.cause != .cancelled { state.queue = [] }
            return startQueued(&state)
        }
        start(next)
    }
}

/// Trust and eviction.
extension CachedObject {
    /// Checks stored blocks against their checksums; those that differ become missing.
    func verify(_ blocks: [Int]) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(geometry.blockSize), alignment: 4096)
        defer { buffer.deallocate() }
        for block in blocks {
            let expected = monitor.inspect { $0.checksums[block] }
            let isSound = (try? file.checksum(of: block, buffer: buffer)) == expected
            if !isSound {
                Log.warning("cache", "block \(block) of \(key) is damaged on disk and will be fetched again")
                try? change { () throws(SystemError) in try file.clearSlots(of: block..<block + 1) }
            }
            monitor.inspect { state in
                if state.blocks[block] == .stored { state.blocks[block] = isSound ? .verified : .missing }
            }
        }
    }

    /// Gives back disk space of blocks away from the last read, unless the object is being read from this instant.
    func releaseDistantBlocks() {
        change { monitor.inspect { releaseDistantBlocks(&$0) } }
    }

    private func releaseDistantBlocks(_ state: inout State) {
        guard readers.load(ordering: .acquiring) == 0 else { return }
        let near = ByteRange(max(0, state.lastRead - (16 << 20)), state.lastRead + (64 << 20))
        let busy = state.fetches.map { $0.owned } + [near]
        var first: Int?
        for block in 0...state.blocks.count {
            let isReleased =
                block < state.blocks.count && state.blocks[block] != .missing
                && !busy.contains { $0.intersection(geometry.range(of: block)) != nil }
            if isReleased {
                state.blocks[block] = .missing
                first = first ?? block
            } else if let begin = first {
                release(begin..<block)
                first = nil
            }
        }
    }

    /// Gives back the space of neighbouring blocks that count as missing.
    private func release(_ blocks: Range<Int>) {
        try? file.clearSlots(of: blocks)
        let lower = geometry.range(of: blocks.lowerBound).lower
        let count = geometry.range(of: blocks.upperBound - 1).upper - lower
        let mode = moorage_FALLOC_FL_PUNCH_HOLE | moorage_FALLOC_FL_KEEP_SIZE
        _ = moorage_fallocate(file.descriptor.raw, mode, lower, count)
    }

    /// Runs a change of the file by this object.
    func change<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        try watch.change(file.descriptor.raw, body)
    }

    /// Whether nobody else changed the file since its blocks were verified; else nothing in it is trusted any more.
    var isUntouched: Bool {
        watch.isUntouched(file.descriptor.raw, leastSize: version.size) { distrust() }
    }

    /// Has every block verified again before its next use; what fetches under way have put beside them is dropped.
    private func distrust() {
        Log.warning("cache", "the cached file of \(key) was changed by somebody else")
        let handles = monitor.update { state in
            for block in state.blocks.indices where state.blocks[block] == .verified { state.blocks[block] = .stored }
            for fetch in state.fetches {
                fetch.progress.isDropped = true
                fetch.progress.limit = fetch.range.lower
            }
            return state.fetches.compactMap { $0.progress.handle }
        }
        for handle in handles { handle.cancel() }
    }

    /// The bytes written since this was asked last.
    func takeUnmeasured() -> Int64 {
        monitor.inspect { state in
            defer { state.unmeasured = 0 }
            return state.unmeasured
        }
    }

    /// Gives up all fetches under way, as nobody reads the object any more.
    func cancelFetches() {
        let handles = monitor.inspect { state in
            state.queue = []
            return state.fetches.compactMap { $0.progress.handle }
        }
        for handle in handles { handle.cancel() }
    }
}
