// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import Control

@Suite struct EventQueueTests {
    private let time = Timestamp(seconds: 1_700_000_000)

    private func activity(_ volume: String?) -> ControlEvent {
        .activity(event: TransferEvent(.progress, at: time.rfc3339, volume: volume))
    }

    private func kinds(_ events: [ControlEvent]) -> [TransferEvent.Kind] {
        events.compactMap { if case .activity(let event) = $0 { event.event } else { nil } }
    }

    @Test func everybodyGetsOnlyWhatWasAskedFor() {
        var queue = EventQueue()
        queue.add(activity("a"))
        queue.add(.changed(volume: "a"))
        #expect(queue.isEmpty)
        queue.isSubscribed = true
        queue.add(activity("a"))
        #expect(queue.isEmpty, "a mount of an earlier version would not know what it is")
        queue.followed = ["b"]
        for volume in ["a", "b", nil] { queue.add(activity(volume)) }
        #expect(queue.take(at: time).count == 2)
        queue.followed = []
        queue.add(activity("a"))
        #expect(queue.take(at: time).count == 1 && queue.isEmpty)
    }

    @Test func aSlowReaderIsToldHowMuchItMissed() throws {
        var queue = EventQueue()
        queue.followed = []
        for _ in 0..<EventQueue.limit + 250 { queue.add(activity("a")) }
        #expect(queue.events.count == EventQueue.limit)
        let batch = queue.take(at: time)
        guard case .activity(let last) = try #require(batch.last) else { return #expect(Bool(false)) }
        #expect(last.event == .missed && last.count == 250 && batch.count == EventQueue.limit + 1)
        queue.add(activity("a"))
        #expect(kinds(queue.take(at: time)) == [.progress], "and goes on from there")
    }
}
