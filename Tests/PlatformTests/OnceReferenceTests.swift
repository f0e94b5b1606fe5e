// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

private final class Thing: Sendable {
    private let onEnd: @Sendable () -> Void

    init(_ onEnd: @escaping @Sendable () -> Void = {}) { self.onEnd = onEnd }

    deinit { onEnd() }
}

/// What many threads share.
private final class Holder: Sendable {
    let reference = OnceReference<Thing>()
}

@Suite struct OnceReferenceTests {
    @Test func whatIsStoredFirstStaysAndIsLetGoOnce() {
        let ended = Monitor<[Int]>([])
        do {
            let reference = OnceReference<Thing>()
            #expect(reference.load() == nil)
            let first = Thing { ended.update { $0.append(1) } }
            #expect(reference.storeIfNil(first) === first)
            #expect(reference.storeIfNil(Thing { ended.update { $0.append(2) } }) === first)
            #expect(ended.inspect { $0 } == [2])
            #expect(reference.load() === first)
        }
        #expect(ended.inspect { $0 } == [2, 1])
    }

    @Test func threadsThatStoreAtOnceGetTheSame() throws {
        for _ in 0..<200 {
            let holder = Holder()
            let found = Monitor<[Thing]>([])
            let isBegun = Monitor(false)
            for _ in 0..<4 {
                try Thread.detached(name: "test") {
                    isBegun.wait { $0 ? () : nil }
                    let thing = holder.reference.storeIfNil(Thing())
                    found.update { $0.append(thing) }
                }
            }
            isBegun.update { $0 = true }
            let all = try #require(found.wait(timeout: 10) { $0.count == 4 ? $0 : nil })
            #expect(all.allSatisfy { $0 === holder.reference.load() })
        }
    }
}
