// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import CShims
internal import Glibc
internal import Synchronization

/// Tells the kernel that lookups and listings of one folder may be under way at the same time.
///
/// libfuse knows `FUSE_CAP_PARALLEL_DIROPS`, but before 3.17 does not pass it on: then the kernel sends one lookup or
/// listing of a folder after another, so that who waits for the remote holds up all who need nothing of it. The flag is
/// put into libfuse's answer to `FUSE_INIT`, the first one of a session; so is what ``Passthrough`` needs.
struct ParallelDirectories: ~Copyable {
    /// `FUSE_PARALLEL_DIROPS` of linux/fuse.h.
    private static let flag: UInt32 = 1 << 18
    /// Where `struct fuse_init_out` has its flags, and its length since protocol 7.23.
    private static let flagsOffset = 12
    private static let answerLength = 64
    private static let firstVersionThatTells = 317

    /// The kernel can do it and is to be told.
    private let isWanted = Atomic<Bool>(false)
    /// The answer was not sent yet.
    private let isAwaited = Atomic<Bool>(false)

    /// Takes over the session's input and output, which go on as they are; to be called once it is mounted.
    static func prepare(_ session: OpaquePointer, isNeeded: Bool) {
        guard isNeeded || fuse_version() < firstVersionThatTells else { return }
        var calls = fuse_custom_io()
        calls.read = { file, buffer, count, _ in read(file, buffer, count) }
        calls.splice_receive = { from, _, to, _, count, flags, _ in moorage_splice(from, to, count, flags) }
        calls.splice_send = { from, _, to, _, count, flags, _ in moorage_splice(from, to, count, flags) }
        calls.writev = { file, parts, count, context in
            if let context {
                let bridge = Unmanaged<Bridge>.fromOpaque(context).takeUnretainedValue()
                bridge.directories.tell(parts, count, bridge.passthrough)
            }
            return writev(file, parts, count)
        }
        _ = fuse_session_custom_io(session, &calls, fuse_session_fd(session))
    }

    /// Notes at the agreement with the kernel whether it can.
    func note(_ connection: fuse_conn_info) {
        let isMissing = fuse_version() < Self.firstVersionThatTells
        isWanted.store(isMissing && connection.capable & UInt32(FUSE_CAP_PARALLEL_DIROPS) != 0, ordering: .relaxed)
        isAwaited.store(true, ordering: .relaxed)
    }

    /// Adds what is wanted to the first answer after that.
    private func tell(_ parts: UnsafePointer<iovec>?, _ count: Int32, _ passthrough: Passthrough) {
        guard isAwaited.load(ordering: .relaxed), isAwaited.exchange(false, ordering: .relaxed) else { return }
        guard let parts, count == 2, parts[1].iov_len == Self.answerLength, let answer = parts[1].iov_base
        else { return }
        passthrough.tell(in: answer)
        guard isWanted.load(ordering: .relaxed) else { return }
        let flags = answer.load(fromByteOffset: Self.flagsOffset, as: UInt32.self)
        answer.storeBytes(of: flags | Self.flag, toByteOffset: Self.flagsOffset, as: UInt32.self)
    }
}
