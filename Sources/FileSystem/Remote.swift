// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
package import ObjectStore
internal import Platform

/// The object store as the mount sees it: one that stops answering is not asked again for a while.
///
/// Without this every name that is not known locally would wait for a timeout
/// of its own. While the remote counts as unreachable all calls fail at once,
/// and a thread of its own looks whether it answers again.
package final class Remote: RangeSource {
    private struct Circuit {
        var isOpen = false
        var isStopping = false
        /// It is to be looked for at once.
        var isProbeWanted = false
        /// How many calls the remote has answered.
        var answers = 0
    }

    private static let shortestPause = 1.0
    private static let longestPause = 5.0
    /// A second one is for a server that was just restarting.
    private static let attemptsOfProbe = 2

    package let store: any ObjectStore
    /// Ends the questions under way with the mount, also those that nobody waits for.
    let ending = CancellationFlag()
    private let circuit = Monitor(Circuit())

    package init(store: any ObjectStore) {
        self.store = store
    }

    /// Whether the last call found nobody.
    package var isUnreachable: Bool { circuit.inspect { $0.isOpen } }

    /// Somebody reached the remote: calls are let through again.
    package func becameReachable() { noteAnswer() }

    /// The machine's network is another one than before: a remote that was away is looked for at once.
    package func networkChanged() {
        circuit.update { $0.isProbeWanted = $0.isOpen }
    }

    /// Starts the thread that looks for the remote while it is away.
    func startProbing() throws(SystemError) {
        try Thread.detached(name: "reach") { [self] in
            var pause = Self.shortestPause
            while let isStopping = circuit.wait(until: { $0.isStopping ? true : $0.isOpen ? false : nil }), !isStopping
            {
                let isWanted = circuit.wait(timeout: pause) { circuit in
                    circuit.isStopping || !circuit.isOpen || circuit.isProbeWanted ? true : nil
                }
                if isWanted != nil { pause = Self.shortestPause }
                circuit.inspect { $0.isProbeWanted = false }
                guard isUnreachable else {
                    pause = Self.shortestPause
                    continue
                }
                probe()
                pause = isUnreachable ? min(Self.longestPause, pause * 2) : Self.shortestPause
            }
        }
    }

    func stopProbing() {
        circuit.update { $0.isStopping = true }
        ending.cancel()
    }

    private func probe() {
        let began = answers
        do throws(StoreError) {
            try store.check(attempts: Self.attemptsOfProbe)
            noteAnswer()
        } catch {
            note(error, since: began)
        }
    }

    /// Runs a call unless the remote counts as unreachable.
    func call<Value>(_ body: (any ObjectStore) throws(StoreError) -> Value) throws(StoreError) -> Value {
        let began = try admit()
        do {
            let value = try body(store)
            noteAnswer()
            return value
        } catch {
            note(error, since: began)
            throw error
        }
    }

    package func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        let began: Int
        do {
            began = try admit()
        } catch {
            sink.finished(.failure(error))
            return EndedFetch()
        }
        return store.fetch(key, version: version, range: range, into: WatchedSink(sink, self, began))
    }

    package func opened(_ key: ObjectKey, version: ObjectVersion) { store.opened(key, version: version) }

    package func closed(_ key: ObjectKey, version: ObjectVersion) { store.closed(key, version: version) }

    private var answers: Int { circuit.inspect { $0.answers } }

    fileprivate func noteAnswer() {
        let changes = circuit.inspect { circuit in
            circuit.answers += 1
            return circuit.isOpen
        }
        if changes { circuit.update { $0.isOpen = false } }
    }

    /// A call failed that was let through when the remote had given `began` answers.
    fileprivate func note(_ error: StoreError, since began: Int) {
        // Our own cancelling says nothing about the remote.
        if error.cause == .cancelled { return }
        guard error.cause == .unreachable else { return noteAnswer() }
        // Where somebody had an answer meanwhile, the failure tells of the network of before.
        let changes = circuit.inspect { !$0.isOpen && $0.answers == began }
        if changes { circuit.update { $0.isOpen = true } }
    }

    /// Lets a call through; how many answers there were before it.
    private func admit() throws(StoreError) -> Int {
        let (isOpen, answers) = circuit.inspect { ($0.isOpen, $0.answers) }
        if isOpen { throw StoreError(.unreachable, "the remote did not answer a moment ago") }
        return answers
    }
}

/// Tells the circuit that a fetch brings bytes, and how it ended.
///
/// Its calls follow each other, as those of any sink.
private final class WatchedSink: RangeSink, @unchecked Sendable {
    /// How often bytes count as one more answer, in seconds.
    private static let period = 0.5

    private let sink: any RangeSink
    private let remote: Remote
    private let began: Int
    private var notedAt = -Double.infinity

    init(_ sink: any RangeSink, _ remote: Remote, _ began: Int) {
        self.sink = sink
        self.remote = remote
        self.began = began
    }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        let now = monotonicSeconds()
        if now - notedAt >= Self.period {
            notedAt = now
            remote.noteAnswer()
        }
        sink.received(bytes, at: offset)
    }

    func drained() {
        sink.drained()
    }

    func finished(_ result: Result<Void, StoreError>) {
        switch result {
        case .success: remote.noteAnswer()
        case .failure(let error): remote.note(error, since: began)
        }
        sink.finished(result)
    }
}

/// A fetch that was over before it began.
private final class EndedFetch: RangeFetch {
    func cancel() {}
}
