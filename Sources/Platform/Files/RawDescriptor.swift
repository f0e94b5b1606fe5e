// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// Reads from a borrowed descriptor up to the buffer's length at `offset`; fewer bytes only at the end of the file.
package func readAll(
    _ descriptor: Int32,
    into buffer: UnsafeMutableRawBufferPointer,
    at offset: Int64
) throws(SystemError) -> Int {
    var done = 0
    while done < buffer.count {
        let count = try retryingOnInterrupt("pread") {
            pread(descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, Int(offset) + done)
        }
        if count == 0 { break }
        done += count
    }
    return done
}
