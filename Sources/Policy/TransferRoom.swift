// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What is left of the time and the amount in which uploads may go, where that is known to end.
///
/// What can be resumed just uses it up and goes on later. What cannot is better not begun when it does not fit.
package struct TransferRoom: Hashable, Sendable {
    /// When the window closes that is open now; nil: none does.
    package var closes: Timestamp?
    /// When the next one opens after that.
    package var opens: Timestamp?
    /// How many bytes may still go; nil: any number.
    package var bytes: Int64?
    /// When there are more of them.
    package var refills: Timestamp?

    package init(
        closes: Timestamp? = nil,
        opens: Timestamp? = nil,
        bytes: Int64? = nil,
        refills: Timestamp? = nil
    ) {
        self.closes = closes
        self.opens = opens
        self.bytes = bytes
        self.refills = refills
    }

    /// Why `size` bytes that go in one piece, at `rate` bytes a second (0: unknown), are not begun at `now`.
    func holds(size: Int64, rate: Double, now: Timestamp) -> [Waiting] {
        var holds: [Waiting] = []
        if let closes, closes > now, rate > 0, now.advanced(bySeconds: Double(size) / rate) > closes {
            let detail = "cannot be resumed, and does not fit into what is left of the window"
            holds.append(Waiting(.window, since: now, until: opens, detail: detail))
        }
        if let bytes, size > bytes {
            let detail = "cannot be resumed, and its \(size) bytes do not fit into the \(bytes) that are left"
            holds.append(Waiting(.quota, since: now, until: refills, detail: detail))
        }
        return holds
    }

    /// When so many bytes begin not to fit any more; nil: never, or they do not fit now.
    func lastStart(size: Int64, rate: Double, now: Timestamp) -> Timestamp? {
        guard let closes, rate > 0 else { return nil }
        let start = closes.advanced(bySeconds: -Double(size) / rate)
        return start > now ? start : nil
    }
}
