// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import ObjectStore
import Platform
import Synchronization

/// A remote whose answers the test hands over itself.
final class SteppedSource: RangeSource {
    private let sinks = Monitor([any RangeSink]())
    private let handles = Monitor([FakeFetch]())

    private let asked = Lock([ByteRange]())

    var requests: Int { sinks.inspect { $0.count } }

    /// What was asked for, in order.
    var ranges: [ByteRange] { asked.withLock { $0 } }

    /// Which of the fetches were cancelled, by their order.
    var cancelled: [Int] {
        handles.inspect { handles in handles.indices.filter { handles[$0].isCancelled.load(ordering: .relaxed) } }
    }

    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        let handle = FakeFetch()
        asked.withLock { $0.append(range) }
        handles.update { $0.append(handle) }
        sinks.update { $0.append(sink) }
        return handle
    }

    /// The sink of a fetch, the first or a later one, once there is one.
    func sink(_ index: Int = 0) -> any RangeSink {
        guard let sink = sinks.wait(until: { $0.count > index ? $0[index] : nil }) else {
            preconditionFailure("nothing was asked for")
        }
        return sink
    }
}
