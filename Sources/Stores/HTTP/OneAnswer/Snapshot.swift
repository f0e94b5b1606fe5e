// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// A whole file read in one answer, for readers of any part of it.
///
/// For what no two answers may be put together for: files without a strong validator, and servers without ranges. What
/// comes is kept in a file without a name, and where the disk does not take that, in memory, as far as that goes. Bytes that
/// are not there any more are asked for again, with all before them; an answer that differs from what was read is
/// another version. Everything but the calls of ``Snapshots`` runs on the transfer thread.
final class Snapshot: @unchecked Sendable {
    /// What the answer must be about.
    enum Expectation: Hashable, Sendable {
        case version(ObjectVersion)
        case observation(Observation)
    }

    /// How often the file is asked for without anything new having come.
    private static let attempts = 3
    /// How long nobody may have the file open before its answer is given up, in seconds: who opens it again at once, as many
    /// programs do, need not have all of it sent again.
    private static let patience = 1.0

    let size: Int64
    let expectation: Expectation
    private let client: HTTPClient
    private let url: WebURL
    private let memory: AnswerMemory
    private let held: HeldAnswers
    /// Called once when it turns out that there is no such snapshot to be had.
    private let onFailure: @Sendable (StoreError) -> Void

    private let digest = AnswerDigest()
    private var store: AnswerStore?
    /// The answer under way.
    private var answer: SnapshotAnswer?
    /// Bytes of it from here on are kept.
    private var keptFrom: Int64 = 0
    /// Where those that are kept begin which the answers before had as well, and which are not compared yet.
    private var freshFrom: Int64 = 0
    private var wantedEnd: Int64 = 0
    private var isOpen: Bool
    /// It is asked for again after a moment.
    private var isPausing = false
    private var attempt = 1
    /// How much was known when the answer under way was asked for.
    private var knownBefore: Int64 = 0
    /// Why there is none.
    private var failure: StoreError?
    private var readers: [SnapshotFetch] = []
    /// How often somebody came: what was meant for the end of a pause goes by it.
    private var visits = 0
    private var isLettingGo = false

    init(
        _ surroundings: Surroundings,
        _ url: WebURL,
        size: Int64,
        expectation: Expectation,
        isOpen: Bool,
        onFailure: @escaping @Sendable (StoreError) -> Void
    ) {
        client = surroundings.client
        memory = surroundings.memory
        held = surroundings.held
        self.url = url
        self.size = size
        self.expectation = expectation
        self.isOpen = isOpen
        self.onFailure = onFailure
    }

    /// What all snapshots of a store have in common.
    struct Surroundings {
        let client: HTTPClient
        let memory: AnswerMemory
        let held: HeldAnswers
    }

    // MARK: From other threads

    func add(_ reader: SnapshotFetch) {
        onTransferThread {
            self.visits += 1
            self.readers.append(reader)
            self.keepMore(from: reader.position)
            self.wantedEnd = max(self.wantedEnd, reader.range.upper)
            self.advance()
        }
    }

    /// Keeps from here on what is still to come of the answer: the kernel's requests do not come in the order of offsets.
    private func keepMore(from offset: Int64) {
        guard let store, answer != nil, (digest.position..<max(digest.position, keptFrom)).contains(offset) else {
            return
        }
        keptFrom = offset
        freshFrom = store.end(from: offset)
    }

    /// Whether anybody has the file open.
    func setOpen(_ isOpen: Bool) {
        onTransferThread {
            self.visits += 1
            self.isOpen = isOpen
            self.advance()
        }
    }

    /// Has the readers looked at again, soon.
    func wake() { onTransferThread { self.advance() } }

    /// Ends an answer that is held although somebody may read on: others need its connection.
    func makeRoom() {
        onTransferThread {
            if self.readers.isEmpty { self.endAnswer() }
        }
    }

    private func onTransferThread(_ body: @escaping @Sendable () -> Void) {
        client.transport.schedule(after: 0, body)
    }

    // MARK: Readers

    /// Gives each reader what is there, and does what is needed for the rest.
    func advance() {
        let isGivenUp = readers.contains { $0.isCancelled }
        readers = readers.filter { !isDone($0) }
        // Nobody wants what was for those alone.
        if isGivenUp { wantedEnd = readers.reduce(digest.position) { max($0, $1.range.upper) } }
        if failure != nil || isPausing { return }
        switch plan.step {
        case .rest, .hold: break
        case .goOn: goOn()
        case .ask(let offset): ask(keepingFrom: offset)
        case .letGo: letGoSoon()
        }
    }

    private var plan: AnswerPlan {
        let position = answer == nil ? nil : digest.position
        return AnswerPlan(
            size: size,
            position: position,
            waiting: readers.map { reader in
                let isThere = store.map { $0.end(from: reader.position) > reader.position } ?? false
                return .init(offset: reader.position, hasPassed: reader.position < position ?? 0 && !isThere)
            },
            isOpen: isOpen,
            isOnDisk: store?.isOnDisk ?? true,
            wantedEnd: wantedEnd,
            room: store?.room ?? 0
        )
    }

    private func isDone(_ reader: SnapshotFetch) -> Bool {
        if reader.isCancelled {
            reader.sink.finished(.failure(StoreError(.cancelled, "cancelled")))
            return true
        }
        deliver(to: reader)
        if reader.position == reader.range.upper {
            reader.sink.finished(.success(()))
            return true
        }
        guard let failure else { return false }
        reader.sink.finished(.failure(failure))
        return true
    }

    private func deliver(to reader: SnapshotFetch) {
        guard let store else { return }
        var hasDelivered = false
        while reader.position < reader.range.upper {
            let end = min(reader.range.upper, certainEnd(store.end(from: reader.position)))
            guard reader.position < end else { break }
            let isThere = store.read(reader.position, upTo: end) { bytes in
                reader.sink.received(bytes, at: reader.position)
                reader.position += Int64(bytes.count)
                hasDelivered = true
            }
            guard isThere else {
                // What the disk had is gone: all that is there from now on is of the answer under way.
                freshFrom = 0
                break
            }
        }
        if hasDelivered { reader.sink.drained() }
    }

    /// How many of the bytes up to here are certain to be those of one version.
    private func certainEnd(_ end: Int64) -> Int64 {
        digest.position < digest.known && answer != nil ? min(end, max(freshFrom, digest.verified)) : end
    }

    // MARK: The answer

    private func ask(keepingFrom offset: Int64) {
        endAnswer()
        let store = self.store ?? AnswerStore(directory: client.configuration.spoolDirectory, memory: memory)
        self.store = store
        keptFrom = store.isOnDisk ? 0 : offset
        freshFrom = store.end(from: keptFrom)
        wantedEnd = readers.reduce(0) { max($0, $1.range.upper) }
        knownBefore = digest.known
        digest.begin()
        let new = SnapshotAnswer(self)
        answer = new
        new.begin(client, url)
    }

    private func endAnswer() {
        answer?.giveUp()
        leaveAnswer()
    }

    private func leaveAnswer() {
        guard answer != nil else { return }
        held.remove(self)
        answer = nil
        // What was not compared by now never is.
        if digest.position < digest.known { store?.cut(to: max(freshFrom, digest.verified)) }
    }

    private func goOn() {
        guard let answer, answer.isHeld else { return }
        held.remove(self)
        answer.goOn()
    }

    /// Whether more of the answer is welcome now; without that it is held.
    func mayReceive() -> Bool {
        let step = plan.step
        guard [.hold, .letGo].contains(step) else { return true }
        held.add(self)
        // Other files may have taken the room since it was last looked at.
        if step == .letGo { letGoSoon() }
        return false
    }

    /// Takes bytes of the answer under way; they may be its end.
    func take(_ bytes: UnsafeRawBufferPointer) {
        let position = digest.position
        guard Int64(bytes.count) <= size - position, digest.take(bytes) else {
            endAnswer()
            return fail(HTTPErrors.changed)
        }
        let skipped = Int(min(Int64(bytes.count), max(0, keptFrom - position)))
        store?.add(UnsafeRawBufferPointer(rebasing: bytes[skipped...]), at: position + Int64(skipped))
        advance()
    }

    /// The answer under way is over, complete when there is no error.
    func ended(_ error: StoreError?) {
        leaveAnswer()
        var error = error
        if error == nil, digest.position < size { error = StoreError(.temporary, "the answer ended early") }
        if digest.known >= knownBefore + RetryPolicy.leastProgress { attempt = 1 }
        guard let error else {
            attempt = 1
            return advance()
        }
        error.isTransient ? retry(after: error) : fail(error)
    }

    private func retry(after error: StoreError) {
        guard attempt < Self.attempts, !readers.isEmpty else { return refuse(error) }
        isPausing = true
        client.transport.schedule(after: 0.2 * Double(attempt)) {
            self.isPausing = false
            self.advance()
        }
        attempt += 1
    }

    /// Those who wait get an error; who comes later has it tried again.
    private func refuse(_ error: StoreError) {
        attempt = 1
        failure = error
        readers = readers.filter { !isDone($0) }
        failure = nil
        advance()
    }

    private func fail(_ error: StoreError) {
        failure = error
        store = nil
        onFailure(error)
        advance()
    }

    // MARK: The end

    /// Gives up what is under way and what is in memory, unless somebody comes soon.
    private func letGoSoon() {
        guard !isLettingGo else { return }
        isLettingGo = true
        let visits = visits
        client.transport.schedule(after: Self.patience) { [weak self] in
            guard let self else { return }
            self.isLettingGo = false
            guard self.plan.step == .letGo else { return self.advance() }
            if self.visits != visits { return self.letGoSoon() }
            self.endAnswer()
            if self.store?.isOnDisk == false { self.store = nil }
        }
    }
}
