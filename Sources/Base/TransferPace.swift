// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A limit of the rate at which some transfers send together, besides the one that all have.
///
/// Called on the transfer thread; must not block.
package protocol TransferPace: AnyObject, Sendable {
    /// How long until something may go, in nanoseconds; 0: now.
    func wait() -> Int64
    /// How many bytes may go in one go.
    func piece() -> Int64
    /// So many bytes go.
    func take(_ bytes: Int64)
}
