// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import Platform

/// Has the kernel drop what it holds of bytes that were written past it, before their writer hears that they are written.
///
/// The kernel drops its pages when a direct write begins, and when it ends unless it is asynchronous (io_submit(2)). What
/// somebody reads through the kernel's memory in between would stay there with the bytes from before.
///
/// A thread of its own asks the kernel, which waits for pages that are just being read. Those may need what the writes
/// themselves have, a place among the requests under way: so no write waits long for its answer. The pages go all the same.
/// So do those of files that the kernel is to read from the cache by itself.
final class PagesBehindWrites: Sendable {
    private struct Drop {
        let inode: fuse_ino_t
        let range: ByteRange
        let isDone = Monitor(false)
    }

    private struct State: @unchecked Sendable {
        // Used by the thread only, and not when it has ended.
        var session: OpaquePointer?
        var drops: [Drop] = []
        var isRunning = false
    }

    /// How long a write waits for its pages at most, in seconds.
    private static let patience = 0.25
    /// How long the thread waits for more, in seconds.
    private static let idleTime = 1.0
    /// How long the kernel may take with the last ones when the mount ends, in seconds.
    private static let endTime = 2.0
    private static let page: Int64 = 4096
    /// How many may wait; writes that were answered before leave theirs behind.
    private static let limit = 1024

    private let state = Monitor(State())

    func serve(_ session: OpaquePointer) {
        state.update { $0.session = session }
    }

    /// Drops the pages of a range that was written; returns when they are gone, or after a moment.
    func drop(_ inode: fuse_ino_t, _ range: ByteRange) {
        guard let drop = enqueue(inode, range) else { return }
        // The kernel keeps a page that is written in part locked until the answer.
        guard range.lower % Self.page == 0, range.upper % Self.page == 0 else { return }
        _ = drop.isDone.wait(timeout: Self.patience) { $0 ? true : nil }
    }

    /// Drops all pages of a file that nobody has open, soon; not when many others are waiting, as nothing depends on it.
    func dropAll(_ inode: fuse_ino_t) {
        guard state.inspect({ $0.drops.count < Self.limit / 2 }) else { return }
        _ = enqueue(inode, ByteRange(0, Int64.max))
    }

    /// Leaves a range to the thread; nil when the mount ends, and nothing is dropped any more.
    private func enqueue(_ inode: fuse_ino_t, _ range: ByteRange) -> Drop? {
        let drop = Drop(inode: inode, range: range)
        let (isTaken, isFirst) = state.update { state -> (Bool, Bool) in
            guard state.session != nil else { return (false, false) }
            if state.drops.count >= Self.limit { Self.merge(&state) }
            state.drops.append(drop)
            defer { state.isRunning = true }
            return (true, !state.isRunning)
        }
        if isFirst { start() }
        return isTaken ? drop : nil
    }

    /// Drops nothing any more; false when the kernel does not end what it was asked last: the session is still in use then.
    func end() -> Bool {
        state.update { state in
            state.session = nil
            Self.giveUp(&state)
        }
        return state.wait(timeout: Self.endTime) { $0.isRunning ? nil : true } ?? false
    }

    private func start() {
        do throws(SystemError) {
            try Thread.detached(name: "pages") { [self] in run() }
        } catch {
            Log.warning("mount", "no thread to drop old pages: \(error)")
            state.update { state in
                Self.giveUp(&state)
                state.isRunning = false
            }
        }
    }

    /// Makes one of all that wait for the same file; their writes are answered.
    private static func merge(_ state: inout State) {
        var ranges: [fuse_ino_t: ByteRange] = [:]
        for drop in state.drops {
            let known = ranges[drop.inode] ?? drop.range
            let (lower, upper) = (min(known.lower, drop.range.lower), max(known.upper, drop.range.upper))
            ranges[drop.inode] = ByteRange(lower, upper)
        }
        giveUp(&state)
        state.drops = ranges.map { Drop(inode: $0.key, range: $0.value) }
    }

    private static func giveUp(_ state: inout State) {
        for drop in state.drops { drop.isDone.update { $0 = true } }
        state.drops = []
    }

    private func run() {
        while let (drop, session) = next() {
            let count = off_t(drop.range.count)
            _ = fuse_lowlevel_notify_inval_inode(session, drop.inode, off_t(drop.range.lower), count)
            drop.isDone.update { $0 = true }
        }
    }

    /// What is to be dropped next; nil when there is nothing, and the thread ends.
    private func next() -> (Drop, OpaquePointer)? {
        _ = state.wait(timeout: Self.idleTime) { $0.session == nil || !$0.drops.isEmpty ? true : nil }
        return state.update { state in
            guard let session = state.session, !state.drops.isEmpty else {
                Self.giveUp(&state)
                state.isRunning = false
                return nil
            }
            return (state.drops.removeFirst(), session)
        }
    }
}
