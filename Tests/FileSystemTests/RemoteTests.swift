// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import ObjectStore
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
}
