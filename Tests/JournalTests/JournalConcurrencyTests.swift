// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Platform
import Testing

/// A mount with several threads and a flusher, each with a journal of its own on the same files.
@Suite struct JournalConcurrencyTests {
    /// What the threads found wrong, and what the flusher brought to the remote.
    private struct Outcome {
        var failures: [String] = []
        var sent: [ObjectKey: Int64] = [:]
        var running = 0
    }

    @Test func mountAndFlusherNeitherLoseNorBlockEachOther() throws {
        let fixture = try Fixture()
        let outcome = Monitor(Outcome())
        let path = fixture.scratch.path
        for worker in 0..<3 {
            outcome.update { $0.running += 1 }
            let journal = fixture.journal
            try Thread.detached(name: "mount") {
                Self.run(outcome) { try Self.mount(journal, worker) }
                outcome.update { $0.running -= 1 }
            }
        }
        try Thread.detached(name: "flusher") {
            Self.run(outcome) {
                let journal = try Journal(directory: path)
                while !(try journal.counts().total == 0 && outcome.update { $0.running == 0 }) {
                    try Self.flush(journal, outcome)
                }
            }
            outcome.update { $0.running -= 1_000_000 }
        }
        _ = outcome.wait(timeout: 120) { $0.running <= -1_000_000 ? true : nil }
        let (failures, sent) = outcome.update { ($0.failures, $0.sent) }
        #expect(failures.isEmpty)
        // Each worker leaves the second half of its files, renamed and written a second time.
        #expect(sent.count == 3 * 20)
        #expect(sent.values.allSatisfy { $0 == 8 })
        #expect(try fixture.journal.transfers().isEmpty)
        #expect(try fixture.staging() == 0)
    }

    private static func run(_ outcome: Monitor<Outcome>, _ body: () throws -> Void) {
        do {
            try body()
        } catch {
            outcome.update { $0.failures.append("\(error)") }
        }
    }

    private static func mount(_ journal: Journal, _ worker: Int) throws {
        for index in 0..<40 {
            let path = ObjectKey("w\(worker)-\(index)")
            let node = try journal.createFile(at: path, attributes: .file(), remote: .absent)
            try write(journal, node, "1234")
            if index < 20 {
                try journal.remove(at: path, remote: .absent)
            } else {
                let moved = ObjectKey("m\(worker)-\(index)")
                try journal.rename(from: path, to: moved, sourceRemote: .absent, targetRemote: .absent)
                // By now it may be sent already; then it is as at the remote, which only the flusher knows here.
                guard try journal.node(at: moved) != nil else { throw Failure("\(moved) was sent too early") }
                try write(journal, try journal.beginWriting(at: moved, remote: .absent), "12345678")
                _ = try journal.reschedule(moved) { $0.notBefore = nil }
            }
        }
    }

    private static func write(_ journal: Journal, _ node: JournalNode, _ text: String) throws {
        guard let generation = node.generation else { throw Failure("no generation") }
        let staging = try journal.openStaging(generation.id, creating: true)
        try Array(text.utf8).withUnsafeBytes { try staging.write($0, at: 0) }
        var content = generation.content
        content.write(ByteRange(0, Int64(text.utf8.count)))
        // Not to be taken before it has its last content.
        _ = try journal.reschedule(node.path) { $0.notBefore = Timestamp(seconds: 1) }
        try journal.seal(node.id, generation.id, content: content, modified: nil)
    }

    /// Whether a row can be taken up; false also when it has changed meanwhile.
    private static func isFree(_ node: JournalNode, _ journal: Journal) throws(JournalError) -> Bool {
        do throws(JournalError) {
            return try journal.blockers(of: node).isEmpty
        } catch {
            guard error.kind == .notFound else { throw error }
            return false
        }
    }

    private static func flush(_ journal: Journal, _ outcome: Monitor<Outcome>) throws {
        for transfer in try journal.transfersToAbort() { try journal.removeTransfer(transfer.id) }
        try journal.synchronizeSealed()
        for node in try journal.pendingNodes(limit: 50) where node.schedule.notBefore == nil {
            guard try isFree(node, journal) else { continue }
            if node.isTombstone {
                outcome.update { $0.sent[node.path] = nil }
                try journal.completeObjectRemoval(at: node.path)
            } else if let transfer = try journal.beginTransfer(of: node, method: .put) {
                let sent = outcome.update { state in
                    state.sent[transfer.key] = transfer.size
                    return state.sent.count
                }
                _ = try journal.completeTransfer(transfer.id, version: .tagged("v\(sent)", transfer.size))
            }
        }
        for generation in try journal.releaseGenerations() { try journal.removeStaging(generation.id) }
    }
}
