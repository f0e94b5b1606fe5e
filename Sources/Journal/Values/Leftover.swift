// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Something that may be left at the remote: an upload that was perhaps begun, or one that could not be ended.
package struct Leftover: Hashable, Sendable {
    package let id: Int64
    package let key: ObjectKey
    package let method: TransferProtocol
    /// What to end, a secret; nil for an upload that was perhaps begun and whose name never arrived.
    package let upload: String?
    /// The interop version of a resumable upload, 0 for the final form.
    package let interopVersion: Int64
    /// The transfer that waits for the answer; nil once nobody does.
    package let transfer: TransferID?
    /// The server's time when it was about to be begun, or ours when it was left.
    package let beganAt: Timestamp
    /// The server's time when the answer was given up; nil when the process ended before.
    package let doubtedAt: Timestamp?
}
