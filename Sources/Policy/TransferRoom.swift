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
    /// When that one closes; nil: it does not.
    package var closesNext: Timestamp?
    /// How many bytes may still go; nil: any number.
    package var bytes: Int64?
    /// When there are more of them.
    package var refills: Timestamp?
    /// How many there are then.
    package var refill: Int64?

    package init(
        closes: Timestamp? = nil,
        opens: Timestamp? = nil,
        closesNext: Timestamp? = nil,
        bytes: Int64? = nil,
        refills: Timestamp? = nil,
        refill: Int64? = nil
    ) {
        self.closes = closes
        self.opens = opens
        self.closesNext = closesNext
        self.bytes = bytes
        self.refills = refills
        self.refill = refill
    }

    /// Why `size` bytes that go in one piece, at `rate` bytes a second (0: unknown), are not begun at `now`.
    func holds(size: Int64, rate: Double, now: Timestamp) -> [Waiting] {
        var holds: [Waiting] = []
        if isBetterNext(size: size, rate: rate, now: now) {
            let detail = "cannot be resumed, and does not fit into what is left of the window"
            holds.append(Waiting(.window, since: now, until: opens, detail: detail))
        }
        if let bytes, size > bytes {
            let fitsLater = refill.map { size <= $0 } ?? true
            let what = fitsLater ? "the \(bytes) that are left" : "what may go at all: they wait for another network"
            let detail = "cannot be resumed, and its \(size) bytes do not fit into \(what)"
            holds.append(Waiting(.quota, since: now, until: fitsLater ? refills : nil, detail: detail))
        }
        return holds
    }

    /// Whether it does not fit into the window that is open, but into the next one: what fits into none is tried, as it
    /// may go faster than before.
    private func isBetterNext(size: Int64, rate: Double, now: Timestamp) -> Bool {
        guard let closes, let opens, closes > now, rate > 0 else { return false }
        let time = Double(size) / rate
        guard now.advanced(bySeconds: time) > closes else { return false }
        return closesNext.map { opens.advanced(bySeconds: time) <= $0 } ?? true
    }

    /// When so many bytes begin not to fit any more; nil: never, or they do not fit now.
    func lastStart(size: Int64, rate: Double, now: Timestamp) -> Timestamp? {
        guard let closes, rate > 0 else { return nil }
        let start = closes.advanced(bySeconds: -Double(size) / rate)
        return start > now ? start : nil
    }
}
