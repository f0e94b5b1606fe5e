// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Knows what the blocks of a file have to be.
package protocol FileCheck: AnyObject, Sendable {
    /// The length of a block in bytes.
    var blockSize: Int64 { get }
    /// The length of the file in bytes.
    var size: Int64 { get }

    /// Whether a whole block, or what the file has of the last one, is what it has to be.
    func accepts(_ block: Int64, _ bytes: UnsafeRawBufferPointer) -> Bool
}
