// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// Names of a folder with their types, one behind the other: about as large as the names themselves.
struct PackedNames: Sendable {
    private var bytes: [UInt8] = []
    /// Where each name ends in `bytes`.
    private var ends: [Int] = []
    /// The upper four bits of S_IFMT, 0 while unknown.
    private var types: [UInt8] = []

    var count: Int { ends.count }

    mutating func append(_ name: ObjectKey, type: UInt32) {
        bytes += name.bytes
        ends.append(bytes.count)
        types.append(UInt8(truncatingIfNeeded: type >> 12))
    }

    func name(_ index: Int) -> ObjectKey {
        ObjectKey(bytes: Array(bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]]))
    }

    /// S_IFMT bits.
    func type(_ index: Int) -> UInt32 { UInt32(types[index]) << 12 }
}
