// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How much of an answer is to have come before the transfer thread is woken for it (`SO_RCVLOWAT`, socket(7)).
///
/// On a fast connection the kernel wakes the thread for each few packets, which costs it time, and the sender too where
/// both are on one machine. So there it waits for a piece worth the way. What comes slowly is taken as it comes, and where
/// less has come, and no more does, it is waited for no longer than ``longestWait``. TLS hands over its records one by one,
/// and asks between them whether there is more, which the mark would deny: it is for plain HTTP.
///
/// A pure value, one a transfer. Times are in seconds of one monotonic clock.
struct LowWaterMark {
    /// No mark: whatever has come is told.
    static let none = 1
    /// What a fast connection's mark is, in bytes.
    static let piece = 512 << 10
    /// How long nothing may come of a transfer whose connection has a mark, while the thread has nothing to do, in seconds.
    static let longestWait = 0.01

    /// A connection is fast that brings a piece within so many seconds.
    private static let span = 0.008
    /// What is said of the rate by less is chance, in bytes.
    private static let leastSample = 1 << 20
    /// Bytes of the answer that libcurl may have read and not have handed over.
    private static let hidden = 128 << 10

    /// In bytes.
    private(set) var bytes = Self.none
    /// The time and the number of bytes when something was received first.
    private var first: (at: Double, received: Int)?
    /// When something was received last.
    private var lastAt = 0.0
    /// How long, and in how many turns of the thread, nothing was received since, the time with nothing else to do.
    private var quiet = (seconds: 0.0, turns: 0)
    private var isGivenUp = false

    /// Whether the connection is to have a mark now.
    var isSet: Bool { bytes > Self.none }

    /// Notes that `received` bytes of the body, `length` bytes long, have come by now; a nil length is not known.
    mutating func note(received: Int, of length: Int?, at now: Double) {
        (lastAt, quiet) = (now, (0, 0))
        guard let first else {
            self.first = (now, received)
            return
        }
        guard !isGivenUp else { return }
        let sample = received - first.received
        let isFast = sample >= Self.leastSample && Double(sample) * Self.span >= Double(Self.piece) * (now - first.at)
        // All that is waited for has to be still to come.
        let isLeft = length.map { $0 - received >= Self.piece + Self.hidden } ?? false
        bytes = isFast && isLeft ? Self.piece : Self.none
    }

    /// Notes that nothing was received in a turn of the thread that waited so long; in each of them it looks.
    mutating func noteNothing(waited: Double, at now: Double) {
        guard isSet else { return }
        quiet = (quiet.seconds + waited, quiet.turns + 1)
        // The thread may have other connections to do all the time; one turn of it may take long where a disk is slow.
        let isOverdue = quiet.turns > 1 && now - lastAt >= 2 * Self.longestWait
        if quiet.seconds >= Self.longestWait || isOverdue { giveUp() }
    }

    /// Nothing is to be waited for any more in this transfer.
    mutating func giveUp() {
        isGivenUp = true
        bytes = Self.none
    }
}
