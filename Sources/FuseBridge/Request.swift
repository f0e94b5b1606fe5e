// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc
internal import Platform

/// What every operation reaches through its request.
final class Bridge: Sendable {
    let fileSystem: FileSystem
    let options: FileSystemOptions
    /// What threads wait for on behalf of callers.
    let requests: WaitingRequests
    let directories = ParallelDirectories()
    let kernelNames = KernelNames()
    let pages = PagesBehindWrites()
    let passthrough = Passthrough()

    init(fileSystem: FileSystem, requests: WaitingRequests) {
        self.fileSystem = fileSystem
        self.requests = requests
        options = fileSystem.options
    }
}

/// One request of the kernel, answered exactly once.
///
/// `fuse_reply_*` may fail when the kernel gave the request up (interrupted, or
/// the mount went away): nothing is left to do then, so its result is ignored.
struct Request {
    let raw: fuse_req_t
    let bridge: Bridge

    var fileSystem: FileSystem { bridge.fileSystem }

    init?(_ raw: fuse_req_t?) {
        guard let raw, let context = fuse_req_userdata(raw) else { return nil }
        self.raw = raw
        bridge = Unmanaged<Bridge>.fromOpaque(context).takeUnretainedValue()
    }

    /// The process that asks: its user, group and umask.
    var caller: Caller {
        guard let context = fuse_req_ctx(raw) else { return Caller(uid: 0, gid: 0, umask: 0o022) }
        return Caller(uid: context.pointee.uid, gid: context.pointee.gid, umask: context.pointee.umask)
    }

    /// Runs work that may wait for the remote; the wait ends when the caller is being killed, or the mount ends.
    func interruptible<Value, Failure: Error>(_ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        try Interruption.during(UnsafeMutableRawPointer(raw), body)
    }

    func fail(_ error: FileError) {
        if error.code == EIO { Log.warning("mount", "input/output error: \(error)") }
        // EINTR is for those who do not live to see it.
        let hasEnded = error.isInterrupted && bridge.requests.isEnding
        _ = fuse_reply_err(raw, hasEnded ? ENOTCONN : error.code)
    }

    /// Answers with success, or with the error that `body` throws.
    func acknowledge(_ body: () throws(FileError) -> Void) {
        do {
            try interruptible(body)
            _ = fuse_reply_err(raw, 0)
        } catch {
            fail(error)
        }
    }

    /// Answers with an inode's entry.
    func entry(_ body: () throws(FileError) -> InodeStatus) {
        do {
            var parameters = try entryParameters(interruptible(body))
            let number = parameters.ino
            // The kernel does not count an entry it never received.
            if fuse_reply_entry(raw, &parameters) != 0 { fileSystem.forget(number, count: 1) }
        } catch {
            fail(error)
        }
    }

    /// Answers with an inode's attributes.
    func attributes(_ body: () throws(FileError) -> InodeStatus) {
        do {
            var status = try interruptible(body).stat
            _ = fuse_reply_attr(raw, &status, bridge.options.kernelAge)
        } catch {
            fail(error)
        }
    }

    /// `lifetime`: how long the kernel may keep it, in seconds; what was made here just now for as long as anything.
    func entryParameters(_ status: InodeStatus, lifetime: Double? = nil) -> fuse_entry_param {
        var parameters = fuse_entry_param()
        parameters.ino = status.number
        parameters.generation = 1
        parameters.attr = status.stat
        parameters.attr_timeout = lifetime ?? bridge.options.kernelAge
        parameters.entry_timeout = parameters.attr_timeout
        return parameters
    }
}

/// The bytes of a C string argument.
func name(_ pointer: UnsafePointer<CChar>?) -> ObjectKey {
    guard let pointer else { return .root }
    return ObjectKey(UnsafeRawBufferPointer(start: pointer, count: strlen(pointer)))
}

extension InodeStatus {
    /// The status in the kernel's form.
    var stat: stat {
        var result = Glibc.stat()
        result.st_ino = UInt(number)
        result.st_mode = attributes.mode
        // A folder's `.` and those of its subfolders; 1 says "unknown" to find(1) and others.
        result.st_nlink = isRemoved ? 0 : subfolders.map { UInt($0) + 2 } ?? UInt(links)
        result.st_uid = attributes.uid
        result.st_gid = attributes.gid
        result.st_rdev = UInt(attributes.device)
        result.st_size = Int(size)
        result.st_blksize = 131_072
        result.st_blocks = Int((size + 511) / 512)
        result.st_mtim = timespec(attributes.modified)
        result.st_ctim = timespec(changed)
        result.st_atim = timespec(accessed)
        return result
    }
}

extension timespec {
    init(_ time: Timestamp) {
        self.init(tv_sec: Int(time.seconds), tv_nsec: Int(time.nanosecondsOfSecond))
    }
}

/// Handles travel through the kernel as numbers: a retained reference, released with the handle.
extension fuse_file_info {
    mutating func hold(_ handle: some AnyObject) {
        fh = UInt64(UInt(bitPattern: Unmanaged.passRetained(handle).toOpaque()))
    }
}

/// The handle a request names; nil when the kernel gave none.
func handle<Handle: AnyObject>(_ info: UnsafeMutablePointer<fuse_file_info>?, _: Handle.Type) -> Handle? {
    guard let info, let pointer = UnsafeRawPointer(bitPattern: UInt(info.pointee.fh)) else { return nil }
    return Unmanaged<Handle>.fromOpaque(pointer).takeUnretainedValue()
}

/// Gives back what ``fuse_file_info/hold(_:)`` retained.
func releaseHandle<Handle: AnyObject>(_ info: UnsafeMutablePointer<fuse_file_info>?, _: Handle.Type) {
    guard let info, let pointer = UnsafeRawPointer(bitPattern: UInt(info.pointee.fh)) else { return }
    info.pointee.fh = 0
    Unmanaged<Handle>.fromOpaque(pointer).release()
}
