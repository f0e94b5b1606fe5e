// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
package import ObjectStore
internal import Platform
internal import Synchronization

/// One object version in the cache, shared by all its readers.
///
/// Each block is missing, being fetched, stored (its checksum is known) or verified
/// (it had that checksum when it was read last, and the file is as it was then).
/// At most one fetch answers for a block. The monitor guards the block states and
/// the progress of the fetches; it is held across no network call and no reply.
/// Lock order: `BlockCache`, the monitor.
package final class CachedObject: Sendable {
    struct State {
        var blocks: BlockTable
        /// The checksum of each block that is or was there, else 0.
        var checksums: [UInt64]
        var fetches: [BlockFetch] = []
        /// What is to be fetched ahead when one of the fetches has ended, in this order.
        var queue: [ByteRange] = []
        /// What blocked readers wait for.
        var waiters: [ByteRange] = []
        /// What has come and was not read since; see ``RecentArrivals``.
        var recent = KeptBuffers()
        /// What the file was when its verified blocks were; nil when there are none.
        var stamp: FileStamp?
        /// Bytes written to the file that its measure does not know of yet.
        var unmeasured: Int64 = 0
        /// The end of the last read, in bytes: eviction spares what lies around it.
        var lastRead: Int64 = 0
    }

    package let key: ObjectKey
    package let version: ObjectVersion
    /// The file's name in the cache.
    let name: String
    let file: CacheFile
    let monitor: Monitor<State>
    let condition: CacheCondition
    let buffers: BlockBuffers
    let direct = DirectFile()
    /// All of it as it was when the file was opened, on request.
    let snapshot = OnceReference<Snapshot>()
    /// Readers that rely on blocks staying in the file right now; goes up within the monitor only.
    let readers = Atomic<Int>(0)
    /// Readers for whose sake eviction leaves all blocks alone; goes up within the monitor only.
    let sparing = Atomic<Int>(0)
    private let source: FetchQueue
    let wholeObjectLimit: Int64
    private let thrift: BlockCache.Thrift
    private let budget: FetchBudget
    let gauge: LineGauge
    let room: CacheRoom
    let writer: ArrivalWriter

    var geometry: BlockGeometry { file.geometry }

    /// Objects up to this length are fetched whole, unless nothing may be fetched ahead.
    static let wholeObjectLimit: Int64 = 1 << 20
    /// With how many fetches of an object no other begins for readahead.
    private static let mostFetches = 8
    /// The most that comes along with a demand while others wait for a connection, in bytes: enough for the answer to
    /// last longer than the wait for it.
    private static let crowdedLength: Int64 = 1 << 20
    /// The most pieces that may wait.
    private static let longestQueue = 256
    /// A reader further ahead of a fetch than this does not wait for it to get there.
    private static let patience: Int64 = 4 << 20
    /// How often a read looks again before it gives up: each round a fetch has ended or lost part of its range.
    private static let maximumRounds = 100

    init(
        key: ObjectKey,
        version: ObjectVersion,
        name: String,
        file: consuming CacheFile,
        source: FetchQueue,
        shared: BlockCache.Shared
    ) throws(SystemError) {
        let slots = try file.loadSlots()
        self.key = key
        self.version = version
        self.name = name
        self.source = source
        wholeObjectLimit = shared.wholeObjectLimit
        thrift = shared.thrift
        budget = shared.budget
        gauge = shared.gauge
        room = shared.room
        writer = shared.writer
        condition = shared.condition
        buffers = shared.buffers
        monitor = Monitor(
            State(blocks: BlockTable(slots.map { $0 == nil ? .missing : .stored }), checksums: slots.map { $0 ?? 0 })
        )
        self.file = file
    }

    /// Calls `body` with the bytes of `range`, which have been verified in memory.
    ///
    /// What `plan` names is fetched too, without waiting. Blocks until the bytes of `range` are there.
    /// Throws what the store says; `.preconditionFailed` when the remote no longer has this version.
    package func read(
        _ range: ByteRange,
        _ plan: ReadPlan,
        _ body: (CachedBytes) -> Void
    ) throws(StoreError) {
        precondition(range.upper <= version.size, "read behind the end of an object")
        for range in plan.abandoned { giveUp(range) }
        var ahead = plan.ahead
        for _ in 0..<Self.maximumRounds {
            guard try makeResident(range, ahead: ahead) else { break }
            // Damage is rare: what was asked for ahead once is not asked for again.
            ahead = []
            if answer(range, body) { return }
        }
        condition.readUncached()
        let bytes = try UncachedRead.read(key, version: version, range: range, from: source)
        bytes.withUnsafeBytes { body(.whole($0)) }
    }

    /// Gets the bytes of `range` into the file; false when the disk does not take them.
    func keep(_ range: ByteRange) throws(StoreError) -> Bool {
        guard try makeResident(range, ahead: []) else { return false }
        letGo()
        return true
    }

    /// Where the bytes of `range` are now.
    package func presence(of range: ByteRange) -> ReadPresence {
        let blocks = geometry.blocks(in: range)
        return monitor.inspect { state in
            var isUnderWay = false
            for block in blocks where state.blocks[block] == .missing {
                let part = geometry.range(of: block)
                let isOnItsWay = state.fetches.contains { $0.remaining(geometry).intersection(part) != nil }
                guard isOnItsWay else { return .missing }
                isUnderWay = true
            }
            return isUnderWay ? .underWay : .resident
        }
    }

    /// Whether every byte of `range` is in the cache file (verified or not).
    package func isResident(_ range: ByteRange) -> Bool {
        let blocks = geometry.blocks(in: range)
        return monitor.inspect { state in blocks.allSatisfy { state.blocks[$0] != .missing } }
    }

    /// Gets the blocks of `range` into the file and counts a reader; false when the disk cannot hold them.
    private func makeResident(_ demand: ByteRange, ahead: [ByteRange]) throws(StoreError) -> Bool {
        // Only whole blocks can be verified.
        let range = geometry.aligned(demand)
        if !isResident(range) {
            takeInSlots(of: range)
            guard isResident(range) || (file.isWritable && condition.mayStore()) else { return false }
        }
        var attempts = 0
        for round in 0..<Self.maximumRounds {
            var step = monitor.inspect { nextStep(&$0, range: range, ahead: round == 0 ? ahead : []) }
            start(step.toStart)
            if step.isReady { return true }
            step.awaited += step.toStart.filter { $0.range.intersection(range) != nil }
            guard wait(for: range) else { throw StoreError(.cancelled, "the reader was interrupted") }
            switch failure(of: step.awaited) {
            case .none: continue
            case .disk: return false
            case .store(let error, let progressed):
                attempts = progressed ? 0 : attempts + 1
                let mayRetry = error.isTransient && error.cause != .unreachable && attempts < 2
                if !mayRetry { throw error }
            }
        }
        throw StoreError(.temporary, "\(key): the bytes \(range) did not arrive in \(Self.maximumRounds) attempts")
    }

    private struct Step {
        var isReady = false
        var toStart: [BlockFetch] = []
        var awaited: [BlockFetch] = []
    }

    private func nextStep(_ state: inout State, range: ByteRange, ahead: [ByteRange]) -> Step {
        var step = Step()
        for block in geometry.blocks(in: range) where state.blocks[block] == .missing {
            awaitMissing(block, &state, range, &step)
        }
        let fitsWhole = version.size <= wholeObjectLimit && !thrift.isOn.load(ordering: .relaxed)
        let demand = fitsWhole ? ByteRange(0, version.size) : range
        let isMissing = geometry.blocks(in: range).contains { state.blocks[$0] == .missing }
        if isMissing || !ahead.isEmpty { plan(&state, demand, isMissing: isMissing, ahead, &step) }
        let isWaiting = !step.awaited.isEmpty || step.toStart.contains { $0.range.intersection(range) != nil }
        if !isMissing, !isWaiting {
            step.isReady = true
            readers.add(1, ordering: .relaxed)
            state.lastRead = range.upper
        }
        return step
    }

    /// Joins the fetch that will bring a missing block's bytes, or takes the block from one that is far behind.
    private func awaitMissing(_ block: Int, _ state: inout State, _ range: ByteRange, _ step: inout Step) {
        guard let needed = geometry.range(of: block).intersection(range) else { return }
        let fetch = state.fetches.first { $0.remaining(geometry).intersection(needed) != nil }
        guard let fetch else { return }
        let start = geometry.range(of: block).lower
        if start - fetch.progress.position > Self.patience, !step.awaited.contains(where: { $0 === fetch }) {
            fetch.progress.limit = start
        } else {
            step.awaited.append(fetch)
        }
    }

    /// Creates fetches for what is neither there nor under way, demand first; what is only wanted ahead may have to queue.
    ///
    /// What is wanted ahead and lies next to the demand comes with it, in one request.
    private func plan(
        _ state: inout State,
        _ demand: ByteRange,
        isMissing: Bool,
        _ ahead: [ByteRange],
        _ step: inout Step
    ) {
        dropQueueIfThrifty(&state)
        for range in ahead {
            // What a backward reader comes to next is no part of the demand's request, though they may share a block.
            let isBackward = range.lower < demand.lower
            let end = isBackward ? max(range.lower, geometry.aligned(demand).lower) : range.upper
            var wanted = gaps(state, in: geometry.aligned(ByteRange(range.lower, min(range.upper, end))))
            for queued in state.queue { wanted.remove(queued) }
            for piece in wanted.ranges.flatMap(pieces) where state.queue.count < Self.longestQueue {
                state.queue.append(piece)
            }
        }
        if isMissing {
            let wanted = gaps(state, in: geometry.aligned(demand)).ranges
            step.toStart += wanted.flatMap { beginDemand($0, &state) }
        }
        step.toStart += startQueued(&state)
    }

    /// Begins what is still missing of a demand; the piece that the rest of it waits in comes along, or its beginning.
    private func beginDemand(_ gap: ByteRange, _ state: inout State) -> [BlockFetch] {
        let next = state.queue.firstIndex { $0.intersection(gap) != nil || $0.lower == gap.upper }
        let whole = ByteRange(gap.lower, max(gap.upper, next.map { takeAlong(at: $0, gap, &state) } ?? 0))
        // What an earlier part of the demand, or another reader's, has begun meanwhile is not asked for again.
        return gaps(state, in: whole).ranges.flatMap(pieces).map { begin($0, &state) }
    }

    /// Takes what comes along with a demand out of the queue; returns where it ends.
    private func takeAlong(at index: Int, _ gap: ByteRange, _ state: inout State) -> Int64 {
        let piece = state.queue.remove(at: index)
        // The piece may be as long as suited a faster line.
        let whole = max(gap.upper, piece.lower) + gauge.line.rangeLength
        let most = budget.isCrowded ? gap.lower + Self.crowdedLength : whole
        let end = max(gap.upper, geometry.aligned(ByteRange(gap.lower, most)).upper)
        guard end < piece.upper else { return piece.upper }
        state.queue.insert(ByteRange(end, piece.upper), at: index)
        return end
    }

    /// Cuts a range of whole blocks where requests are to end.
    private func pieces(of range: ByteRange) -> [ByteRange] {
        let length = max(Line.usualRange, gauge.line.rangeLength)
        return range.pieces(endingAtMultiplesOf: max(1, length / geometry.blockSize) * geometry.blockSize)
    }

    /// `isCounted`: the budget knows of it already.
    private func begin(_ range: ByteRange, _ state: inout State, isCounted: Bool = false) -> BlockFetch {
        if !isCounted { budget.started() }
        let fetch = BlockFetch(self, range: range, budget: budget, gauge: gauge, writer: writer)
        state.fetches.append(fetch)
        return fetch
    }

    /// Creates the fetches whose turn has come; to be started outside the monitor.
    func startQueued(_ state: inout State) -> [BlockFetch] {
        dropQueueIfThrifty(&state)
        var started: [BlockFetch] = []
        while let piece = state.queue.first, hasRoom(state) {
            let missing = gaps(state, in: piece).ranges
            guard missing.isEmpty || budget.takeReadahead() else { break }
            state.queue.removeFirst()
            // One at a time: many short gaps take as many connections as long ones.
            if missing.count > 1 { state.queue.insert(ByteRange(missing[1].lower, piece.upper), at: 0) }
            guard let next = missing.first else { continue }
            // It was asked for when the line was faster.
            let end = geometry.aligned(ByteRange(next.lower, next.lower + gauge.line.rangeLength)).upper
            if end < next.upper { state.queue.insert(ByteRange(end, next.upper), at: 0) }
            let range = ByteRange(next.lower, min(end, next.upper))
            started.append(begin(range, &state, isCounted: true))
        }
        return started
    }

    /// Nobody waits for what has to wait for its turn: who comes to need it asks for it.
    private func dropQueueIfThrifty(_ state: inout State) {
        if thrift.isOn.load(ordering: .relaxed) { state.queue = [] }
    }

    /// Whether another fetch may run for readahead.
    ///
    /// Those that are about to end do not count: the next request is answered when they have. Nor do short ones, which
    /// are for readers at random.
    private func hasRoom(_ state: State) -> Bool {
        let count = state.fetches.count { !$0.progress.isEnding && $0.range.count >= Line.shortestRange / 2 }
        return count < gauge.line.ranges && state.fetches.count < Self.mostFetches
    }

    private func gaps(_ state: State, in range: ByteRange) -> ExtentSet {
        var missing = ExtentSet()
        for block in geometry.blocks(in: range) where state.blocks[block] == .missing {
            missing.insert(geometry.range(of: block))
        }
        for fetch in state.fetches { missing.remove(fetch.remaining(geometry)) }
        return missing
    }

    func start(_ fetches: [BlockFetch]) {
        for fetch in fetches {
            let range = fetch.range
            let handle = source.fetch(key, version: version, range: range, into: fetch) { fetch.requested() }
            let isStale = monitor.inspect { _ in
                // The two would hold each other for ever, and with them the file.
                if fetch.progress.result == nil { fetch.progress.handle = handle }
                return fetch.progress.position >= fetch.progress.limit && fetch.progress.limit < fetch.range.upper
            }
            if isStale { handle.cancel() }
        }
    }

    /// Waits until no fetch under way has still to deliver blocks of `range`; false when nobody waits for the reader.
    private func wait(for range: ByteRange) -> Bool {
        monitor.inspect { $0.waiters.append(range) }
        let hasCome = monitor.waitUnlessInterrupted { state in isPending(range, state) ? nil : true }
        monitor.inspect { state in
            if let index = state.waiters.firstIndex(of: range) { state.waiters.remove(at: index) }
        }
        return hasCome != nil
    }

    func isPending(_ range: ByteRange, _ state: State) -> Bool {
        state.fetches.contains { $0.remaining(geometry).intersection(range) != nil }
    }

    private enum Failure {
        case none
        case disk
        case store(StoreError, progressed: Bool)
    }

    private func failure(of fetches: [BlockFetch]) -> Failure {
        monitor.inspect { _ in
            for fetch in fetches {
                if fetch.progress.diskFailed { return .disk }
                guard case .failure(let error) = fetch.progress.result, error.cause != .cancelled else { continue }
                return .store(error, progressed: fetch.progress.position > fetch.range.lower)
            }
            return .none
        }
    }
}
