// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// A second descriptor of a cache file, for writes past the kernel's memory of it (`O_DIRECT`).
///
/// What readers get from memory need not take the kernel's as well: half of what such a write costs is making and filling
/// pages that nobody looks at. Several threads may write at once.
final class DirectFile: Sendable {
    private enum State {
        case closed
        case open(Descriptor)
        /// The file system, or this system, has no such writes.
        case unsupported
    }

    /// Open for as long as somebody writes by it, also when it is given up meanwhile.
    private final class Descriptor: Sendable {
        let file: FileDescriptor

        init(_ file: consuming FileDescriptor) { self.file = file }
    }

    /// What offsets, lengths and addresses have to be multiples of; more than any disk asks for.
    static let alignment = 4096

    private let state = Lock(State.closed)

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
            let count = try retryingOnInterrupt("pwritev") {
                withExtendedLifetime(direct) { pwritev(direct.file.raw, vector, Int32(vector.count), Int(offset)) }
            }
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
        // Closed outside of the lock, and not before the last write by it has ended.
        let direct = state.withLock { state -> Descriptor? in
            guard case .open(let direct) = state else { return nil }
            state = .closed
            return direct
        }
        withExtendedLifetime(direct) {}
    }

    private func open(_ descriptor: Int32) -> Descriptor? {
        state.withLock { state in
            switch state {
            case .open(let direct): return direct
            case .unsupported: return nil
            case .closed:
                // Not by its name, which may be another file's by now, or nobody's.
                let flags = O_WRONLY | moorage_O_DIRECT
                guard let file = try? FileDescriptor.open("/proc/self/fd/\(descriptor)", flags) else {
                    state = .unsupported
                    return nil
                }
                let direct = Descriptor(file)
                state = .open(direct)
                return direct
            }
        }
    }

    private func give(up direct: Descriptor) {
        state.withLock { state in
            if case .open(let current) = state, current === direct { state = .unsupported }
        }
    }
}
