// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Platform
import Testing

@testable import BlockCache

/// When the limits of a cache are looked at.
@Suite struct CacheRoomTests {
    @Test func nobodyLooksWhileAnotherDoes() throws {
        let room = CacheRoom()
        let looks = Monitor(0)
        let mayGoOn = Monitor(false)
        room.serve {
            let number = looks.update { looks in
                looks += 1
                return looks
            }
            // Only the first takes its time, or this would wait for itself.
            if number == 1 { _ = mayGoOn.wait { $0 ? true : nil } }
            return 0
        }
        let first = try Thread(name: "first") { room.took(1) }
        _ = looks.wait { $0 == 1 ? true : nil }
        for _ in 0..<10 { room.took(64 << 20) }
        #expect(looks.inspect { $0 } == 1)
        mayGoOn.update { $0 = true }
        first.join()
        // There is no room: after as little as may be it is looked for again.
        room.took(1 << 20)
        #expect(looks.inspect { $0 } == 1)
        room.took(1)
        #expect(looks.inspect { $0 } == 2)
    }
}
