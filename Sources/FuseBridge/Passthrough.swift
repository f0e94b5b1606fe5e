// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import CShims
internal import Glibc
internal import Platform
internal import Synchronization

/// Hands files to the kernel that it may read by itself (FUSE passthrough, linux/fuse.h since protocol 7.40).
///
/// All opens of an inode at one time have to be alike: when one goes by way of the mount, the others do. libfuse knows
/// passthrough since 3.17 only; what it needs are a flag in the answer to `FUSE_INIT`, an ioctl(2) of the session's
/// descriptor and the answer to `FUSE_OPEN`, so that it works with older ones.
final class Passthrough: Sendable {
    private enum Opens {
        case byMount(Int, hasWaited: Bool)
        case byKernel(backing: Int32, Int)
    }

    private let opens = Monitor<[fuse_ino_t: Opens]>([:])
    /// The session's descriptor; -1 when the kernel is not to read by itself.
    private let session = Atomic<Int32>(-1)

    /// The kernel did not refuse yet.
    private let isAccepted = Atomic<Bool>(true)

    /// `FUSE_INIT_EXT` and, in the upper half of the flags, `FUSE_PASSTHROUGH`.
    private static let extended: UInt32 = 1 << 30
    private static let passthrough: UInt32 = 1 << 5
    private static let (flagsOffset, upperFlagsOffset, depthOffset) = (12, 32, 36)
    /// The cache must not lie on a file system that is stacked on others itself.
    private static let stackDepth: UInt32 = 1
    /// `FOPEN_PASSTHROUGH`; with `FOPEN_KEEP_CACHE` beside it the kernel refuses the answer.
    private static let openFlag: UInt32 = 1 << 7
    /// `FOPEN_DIRECT_IO`: of such an open only mappings go to the file.
    private static let directFlag: UInt32 = 1 << 0
    /// The kernel tells of the end of a file a moment after close(2), and who opens it again at once may come first; in seconds.
    private static let patience = 0.005

    /// Begins with it, once mounted.
    func serve(_ session: Int32) { self.session.store(session, ordering: .releasing) }

    var isOn: Bool { session.load(ordering: .acquiring) >= 0 }

    /// Adds what the kernel has to know to the answer to `FUSE_INIT`.
    func tell(in answer: UnsafeMutableRawPointer) {
        guard isOn else { return }
        let flags = answer.load(fromByteOffset: Self.flagsOffset, as: UInt32.self)
        answer.storeBytes(of: flags | Self.extended, toByteOffset: Self.flagsOffset, as: UInt32.self)
        let upper = answer.load(fromByteOffset: Self.upperFlagsOffset, as: UInt32.self)
        answer.storeBytes(of: upper | Self.passthrough, toByteOffset: Self.upperFlagsOffset, as: UInt32.self)
        answer.storeBytes(of: Self.stackDepth, toByteOffset: Self.depthOffset, as: UInt32.self)
    }

    /// Counts an open of an inode; what its answer is to name when the kernel reads by itself, nil when it does not.
    ///
    /// `file` is a descriptor of what it may read.
    func open(_ inode: fuse_ino_t, _ file: Int32?) -> Int32? {
        guard isOn else { return nil }
        if file != nil { awaitEnd(inode) }
        return opens.inspect { opens in
            switch opens[inode] {
            case .byKernel(let backing, let count):
                opens[inode] = .byKernel(backing: backing, count + 1)
                return backing
            case .byMount(let count, let hasWaited):
                opens[inode] = .byMount(count + 1, hasWaited: hasWaited)
                return nil
            case nil:
                let backing = file.flatMap(register)
                opens[inode] = backing.map { .byKernel(backing: $0, 1) } ?? .byMount(1, hasWaited: false)
                return backing
            }
        }
    }

    /// Waits for the end of opens that go by way of the mount, once for as long as there are any.
    private func awaitEnd(_ inode: fuse_ino_t) {
        let isDue = opens.inspect { opens in
            guard case .byMount(let count, false) = opens[inode] else { return false }
            opens[inode] = .byMount(count, hasWaited: true)
            return true
        }
        guard isDue else { return }
        _ = opens.wait(timeout: Self.patience) { opens -> Void? in
            if case .byMount = opens[inode] { return nil }
            return ()
        }
    }

    /// Counts off an open; true after the last of those that went by way of the mount, where the next need not.
    func close(_ inode: fuse_ino_t) -> Bool {
        guard isOn else { return false }
        let (unused, wasByMount) = opens.update { opens -> (Int32?, Bool) in
            switch opens[inode] {
            case .byKernel(let backing, let count):
                opens[inode] = count > 1 ? .byKernel(backing: backing, count - 1) : nil
                return (count > 1 ? nil : backing, false)
            case .byMount(let count, let hasWaited):
                opens[inode] = count > 1 ? .byMount(count - 1, hasWaited: hasWaited) : nil
                return (nil, count == 1)
            case nil: return (nil, false)
            }
        }
        if let unused { _ = moorage_fuse_backing_close(session.load(ordering: .acquiring), unused) }
        return wasByMount && isAccepted.load(ordering: .relaxed)
    }

    private func register(_ file: Int32) -> Int32? {
        guard isAccepted.load(ordering: .relaxed) else { return nil }
        let backing = moorage_fuse_backing_open(session.load(ordering: .acquiring), file)
        if backing > 0 { return backing }
        // When the kernel cannot, or not with this file system, or we may not, that will not change.
        let code = errno
        guard [EPERM, EOPNOTSUPP, ENOTTY, EINVAL, ELOOP].contains(code) else { return nil }
        isAccepted.store(false, ordering: .relaxed)
        Log.info("mount", "the kernel does not read files of the cache by itself: \(String(cString: strerror(code)))")
        return nil
    }

    /// Answers an open whose file the kernel reads by itself; not 0 when the kernel has given it up.
    ///
    /// `isDirect`: its reads come by the mount all the same, which takes any place and length, unlike a disk.
    static func answer(_ request: fuse_req_t, handle: UInt64, backing: Int32, isDirect: Bool) -> Int32 {
        // struct fuse_open_out
        var bytes = (handle, isDirect ? openFlag | directFlag : openFlag, backing)
        return withUnsafeBytes(of: &bytes) { bytes in
            fuse_reply_buf(request, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), 16)
        }
    }
}
