// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// A second descriptor of a cache file, for writes past the kernel's memory of it (`O_DIRECT`).
///
/// What readers get from memory need not take the kernel's as well: half of what such a write costs is making and filling
/// pages that nobody looks at. Used by one thread at a time.
final class DirectFile: Sendable {
    private enum State {
        case closed
        case open(Int32)
        /// The file system, or this system, has no such writes.
        case unsupported
    }

    /// What offsets, lengths and addresses have to be multiples of; more than any disk asks for.
    private static let alignment = 4096

    private let state = Lock(State.closed)

    deinit { close() }

    /// Whether bytes, their place in memory and in the file are such as the disk takes.
    static func takes(_ bytes: UnsafeRawBufferPointer, at offset: Int64) -> Bool {
        bytes.count % alignment == 0 && offset % Int64(alignment) == 0
            && UInt(bitPattern: bytes.baseAddress) % UInt(alignment) == 0
    }

    /// Writes pieces that follow each other, each of which it ``takes(_:at:)``, to the file that is open as `descriptor`.
    ///
    /// False, with nothing promised, when that is to be done the usual way.
    func write(
        _ pieces: [UnsafeRawBufferPointer],
        at offset: Int64,
        of descriptor: borrowing FileDescriptor
    ) throws(SystemError) -> Bool {
        guard let direct = open(descriptor.raw) else { return false }
        let vector = pieces.map {
            iovec(iov_base: UnsafeMutableRawPointer(mutating: $0.baseAddress), iov_len: $0.count)
        }
        do throws(SystemError) {
            let count = try retryingOnInterrupt("pwritev") { pwritev(direct, vector, Int32(vector.count), Int(offset)) }
            // A full disk, or a broken one, says so when the rest is written the usual way.
            return count == pieces.reduce(0) { $0 + $1.count }
        } catch {
            guard error.code == EINVAL || error.code == EOPNOTSUPP else { throw error }
            give(up: direct)
            return false
        }
    }

    /// Closes the descriptor until the next write.
    func close() {
        let open = state.withLock { state -> Int32? in
            guard case .open(let descriptor) = state else { return nil }
            state = .closed
            return descriptor
        }
        if let open { _ = Glibc.close(open) }
    }

    private func open(_ descriptor: Int32) -> Int32? {
        state.withLock { state in
            switch state {
            case .open(let direct): return direct
            case .unsupported: return nil
            case .closed:
                // Not by its name, which may be another file's by now, or nobody's.
                let direct = try? FileDescriptor.open("/proc/self/fd/\(descriptor)", O_WRONLY | moorage_O_DIRECT)
                    .detach()
                state = direct.map { .open($0) } ?? .unsupported
                return direct
            }
        }
    }

    private func give(up direct: Int32) {
        let isOurs = state.withLock { state in
            guard case .open(direct) = state else { return false }
            state = .unsupported
            return true
        }
        if isOurs { _ = Glibc.close(direct) }
    }
}
