// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A clock that only goes forward, and leaves out the time in which this process stood still.
///
/// A process is stopped by SIGSTOP, frozen with its session or its machine, or gets no processor. Others are not to be
/// blamed for an answer that nobody was there to take, so how long they are waited for is measured by this clock. It
/// learns of a standstill from the threads that wait with a limit, when they come back late.
package final class AttendedClock: Sendable {
    private struct State {
        /// Seconds that are left out.
        var lost = 0.0
        /// Until when, in monotonic seconds, it is known what is left out: two threads may tell of the same standstill.
        var knownUntil = 0.0
    }

    /// The process's own.
    package static let shared = AttendedClock()
    /// What a busy machine may let a thread wait, in seconds.
    private static let tolerance = 1.0

    private let state = Lock(State())

    package init() {}

    /// Seconds from an arbitrary start.
    package var seconds: Double { seconds(at: monotonicSeconds()) }

    package func seconds(at now: Double) -> Double { now - state.withLock { $0.lost } }

    /// A thread that was to wait until `due` at the latest goes on at `now`, both in monotonic seconds.
    package func noteWait(until due: Double, now: Double = monotonicSeconds()) {
        guard now - due > Self.tolerance else { return }
        state.withLock { state in
            state.lost += max(0, now - max(due, state.knownUntil))
            state.knownUntil = max(now, state.knownUntil)
        }
    }
}
