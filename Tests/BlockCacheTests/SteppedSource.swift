// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import ObjectStore
import Platform

/// A remote whose answers the test hands over itself.
final class SteppedSource: RangeSource {
    private let sinks = Monitor([any RangeSink]())

    var requests: Int { sinks.inspect { $0.count } }

    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        sinks.update { $0.append(sink) }
        return FakeFetch()
    }

    /// The sink of a fetch, the first or a later one, once there is one.
    func sink(_ index: Int = 0) -> any RangeSink {
        guard let sink = sinks.wait(until: { $0.count > index ? $0[index] : nil }) else {
            preconditionFailure("nothing was asked for")
        }
        return sink
    }
}
