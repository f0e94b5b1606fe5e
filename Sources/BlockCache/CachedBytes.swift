// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The bytes that a cache reader hands out; valid during the call only.
package enum CachedBytes {
    case whole(UnsafeRawBufferPointer)
    /// Pieces that follow each other.
    case parts([UnsafeRawBufferPointer])

    /// Copies all of them to the beginning of `buffer`.
    package func copy(to buffer: UnsafeMutableRawBufferPointer) {
        switch self {
        case .whole(let bytes): buffer.copyMemory(from: bytes)
        case .parts(let parts):
            var done = 0
            for part in parts {
                UnsafeMutableRawBufferPointer(rebasing: buffer[done...]).copyMemory(from: part)
                done += part.count
            }
        }
    }

    /// A copy of all of them.
    package var array: [UInt8] {
        switch self {
        case .whole(let bytes): Array(bytes)
        case .parts(let parts): parts.flatMap { Array($0) }
        }
    }
}
