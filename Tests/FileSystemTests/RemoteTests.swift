// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import ObjectStore
import Platform
import Testing

@testable import FileSystem

/// When a remote that did not answer is not asked for a while.
@Suite struct RemoteTests {
    private let remote = Remote(store: MemoryStore())

    private func fail(_ cause: StoreError.Cause = .unreachable, after meanwhile: () throws -> Void = {}) {
        _ = try? remote.call { _ throws(StoreError) in
            try? meanwhile()
            throw StoreError(cause, "in a test")
        }
    }

    @Test func whoeverFindsNobodySparesTheOthersTheWait() {
        fail()
        #expect(remote.isUnreachable)
        var isAsked = false
        _ = try? remote.call { _ throws(StoreError) in isAsked = true }
        #expect(!isAsked)
        remote.becameReachable()
        #expect(!remote.isUnreachable)
    }

    @Test func anErrorThatTheRemoteTellsIsAnAnswer() {
        fail(.notFound)
        #expect(!remote.isUnreachable)
    }

    /// The network was cut, and is back: what was asked before the cut fails late.
    @Test func aLateFailureSaysNothingAboutTheNetworkOfNow() {
        fail { try remote.call { _ throws(StoreError) in } }
        #expect(!remote.isUnreachable)
        fail()
        #expect(remote.isUnreachable, "a failure of now counts")
    }

    /// Who waits too long while others get their bytes waits for something else than the remote.
    @Test func bytesThatComeAreAnAnswer() {
        let store = MemoryStore()
        let version = store.set("k", [1, 2, 3])
        let remote = Remote(store: store)
        let sink = HeldSink()
        _ = try? remote.call { _ throws(StoreError) in
            _ = remote.fetch(ObjectKey("k"), version: version, range: ByteRange(0, 3), into: sink)
            sink.waitForBytes()
            throw StoreError(.unreachable, "in a test")
        }
        #expect(!remote.isUnreachable)
        sink.letGo()
    }
}

/// Keeps a fetch from its end once it has brought bytes.
private final class HeldSink: RangeSink {
    private let state = Monitor((hasCome: false, isLetGo: false))

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        state.update { $0.hasCome = true }
        _ = state.wait(timeout: 20) { $0.isLetGo ? true : nil }
    }

    func finished(_ result: Result<Void, StoreError>) {}

    func waitForBytes() { _ = state.wait(timeout: 20) { $0.hasCome ? true : nil } }
    func letGo() { state.update { $0.isLetGo = true } }
}
