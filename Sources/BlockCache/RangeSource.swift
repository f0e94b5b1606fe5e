// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore

/// Where missing bytes come from: the part of ``ObjectStore`` that the cache needs.
package protocol RangeSource: AnyObject, Sendable {
    /// See ``ObjectStore/fetch(_:version:range:into:)``.
    func fetch(_ key: ObjectKey, version: ObjectVersion, range: ByteRange, into sink: any RangeSink) -> any RangeFetch
    /// See ``ObjectStore/opened(_:version:)``.
    func opened(_ key: ObjectKey, version: ObjectVersion)
    func closed(_ key: ObjectKey, version: ObjectVersion)
}

extension RangeSource {
    package func opened(_ key: ObjectKey, version: ObjectVersion) {}
    package func closed(_ key: ObjectKey, version: ObjectVersion) {}
}
