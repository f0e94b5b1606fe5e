// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore

/// The source of a cache of which only is read what others have put into it.
package final class CachedOnly: RangeSource, RangeFetch {
    package init() {}

    package func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        sink.finished(.failure(StoreError(.notFound, "\(key): not all of it is cached")))
        return self
    }

    package func cancel() {}
}
