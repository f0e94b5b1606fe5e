// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Synchronization

/// Notices that somebody else changed a cache file while it is open.
///
/// Blocks are verified when they are first used. What is done to the file after that shows in its length and in
/// its time of change, which nobody can set; our own changes are told apart by going through ``change(_:_:)``.
/// Only what happens within one tick of the kernel's clock for files (at most a few milliseconds) around a
/// change of ours can be missed.
final class FileWatch: Sendable {
    private struct Stamp: Hashable {
        var size: Int64
        var changed: Int64

        /// The file as it is now, nil when it cannot be asked.
        init?(_ descriptor: Int32) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { return nil }
            let file = FileStatus(status)
            (size, changed) = (file.size, file.changed.nanoseconds)
        }
    }

    private struct State {
        var stamp: Stamp?
        var isForeign = false

        /// Compares with what our last change, or the last look, left.
        mutating func look(at descriptor: Int32) {
            let now = Stamp(descriptor)
            if now == nil || now != stamp { isForeign = true }
            stamp = now
        }
    }

    private let state: Lock<State>

    /// Begins to watch an open file.
    init(_ descriptor: Int32) {
        state = Lock(State(stamp: Stamp(descriptor)))
    }

    /// Runs a change of our own.
    func change<Failure: Error>(_ descriptor: Int32, _ body: () throws(Failure) -> Void) throws(Failure) {
        try state.withLock { state throws(Failure) in
            state.look(at: descriptor)
            defer { state.stamp = Stamp(descriptor) }
            try body()
        }
    }

    /// Whether nobody else changed the file; else calls `distrust`, alone, before any other thread gets an answer.
    ///
    /// While another thread is at a change of its own only the length is looked at: the next caller sees the rest.
    func isUntouched(_ descriptor: Int32, leastSize: Int64, distrust: () -> Void) -> Bool {
        let answer = state.withLockIfAvailable { Self.answer(&$0, descriptor, distrust) }
        if let answer { return answer }
        if let size = Stamp(descriptor)?.size, size >= leastSize { return true }
        return state.withLock { Self.answer(&$0, descriptor, distrust) }
    }

    private static func answer(_ state: inout State, _ descriptor: Int32, _ distrust: () -> Void) -> Bool {
        state.look(at: descriptor)
        guard state.isForeign else { return true }
        state.isForeign = false
        distrust()
        return false
    }
}
