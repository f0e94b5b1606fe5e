// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import Platform

/// Has the kernel drop what it holds of bytes that were written past it, before their writer hears that they are written.
///
/// The kernel drops its pages when a direct write begins, and when it ends unless it is asynchronous (io_submit(2)). What
/// somebody reads through the kernel's memory in between would stay there with the bytes from before.
/// A thread of its own: the kernel waits for pages that are just being read, which only our other threads can end.
final class PagesBehindWrites: Sendable {
    /// A write that was carried out and not answered yet.
    struct Write: @unchecked Sendable {
        // libfuse lets any thread answer a request, once.
        let request: fuse_req_t
        let inode: fuse_ino_t
        let offset: off_t
        /// In bytes.
        let count: Int
    }

    private struct State: @unchecked Sendable {
        // Used by the thread, which has ended before the session does.
        var session: OpaquePointer?
        var writes: [Write] = []
        var isRunning = false
    }

    // No more writes wait than the kernel has requests under way.
    private let state = Monitor(State())

    func serve(_ session: OpaquePointer) {
        state.update { $0.session = session }
    }

    /// Answers the write once the kernel holds nothing older.
    func answer(_ write: Write) {
        let (isTaken, isFirst) = state.update { state -> (Bool, Bool) in
            guard state.session != nil else { return (false, false) }
            state.writes.append(write)
            defer { state.isRunning = true }
            return (true, !state.isRunning)
        }
        guard isTaken else { return reply(write) }
        guard isFirst else { return }
        do throws(SystemError) {
            try Thread.detached(name: "pages") { [self] in run() }
        } catch {
            Log.warning("mount", "no thread to drop old pages: \(error)")
            run()
        }
    }

    /// Answers what waits, and drops nothing any more; the requests must still be taken, as the kernel may wait for them.
    func end() {
        state.update { $0.session = nil }
        _ = state.wait { $0.isRunning ? nil : true }
    }

    private func run() {
        while let (write, session) = next() {
            if let session {
                _ = fuse_lowlevel_notify_inval_inode(session, write.inode, write.offset, off_t(write.count))
            }
            reply(write)
        }
    }

    /// The write whose turn it is; nil: there is none, and the thread ends.
    private func next() -> (Write, OpaquePointer?)? {
        state.update { state in
            guard !state.writes.isEmpty else {
                state.isRunning = false
                return nil
            }
            return (state.writes.removeFirst(), state.session)
        }
    }

    private func reply(_ write: Write) {
        _ = fuse_reply_write(write.request, write.count)
    }
}
