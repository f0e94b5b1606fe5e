// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// The only owner of an open file descriptor; closes it at the end of its life.
package struct FileDescriptor: ~Copyable, Sendable {
    /// The number, for calls that this type does not wrap.
    ///
    /// Never close it, never keep it beyond the owner.
    package let raw: Int32

    /// Takes over an open descriptor.
    package init(owning raw: Int32) {
        precondition(raw >= 0, "not a file descriptor: \(raw)")
        self.raw = raw
    }

    deinit {
        _ = Glibc.close(raw)
    }

    /// Closes now; nothing useful can be done about an error of close(2) on Linux, so none is reported.
    package consuming func close() {}

    /// Gives up ownership: the caller closes the returned number.
    package consuming func detach() -> Int32 {
        let number = raw
        discard self
        return number
    }

    /// open(2) with `O_CLOEXEC`.
    package static func open(_ path: String, _ flags: Int32, mode: UInt32 = 0o600) throws(SystemError) -> FileDescriptor
    {
        let number = try retryingOnInterrupt("open", path) { Glibc.open(path, flags | O_CLOEXEC, mode) }
        return FileDescriptor(owning: number)
    }

    /// Another descriptor of the same open file (F_DUPFD_CLOEXEC).
    package func duplicate() throws(SystemError) -> FileDescriptor {
        let number = try retryingOnInterrupt("dup") { fcntl(raw, F_DUPFD_CLOEXEC, 0) }
        return FileDescriptor(owning: number)
    }

    /// Reads up to the buffer's length at `offset`; fewer bytes only at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(SystemError) -> Int {
        var done = 0
        while done < buffer.count {
            let count = try retryingOnInterrupt("pread") {
                pread(raw, buffer.baseAddress.map { $0 + done }, buffer.count - done, Int(offset) + done)
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// Writes the whole buffer at `offset`.
    package func write(_ buffer: UnsafeRawBufferPointer, at offset: Int64) throws(SystemError) {
        var done = 0
        while done < buffer.count {
            done += try retryingOnInterrupt("pwrite") {
                pwrite(raw, buffer.baseAddress.map { $0 + done }, buffer.count - done, Int(offset) + done)
            }
        }
    }

    /// Reads what is there, up to the buffer's length, from a socket, pipe or file position; 0 at the end.
    package func readSome(into buffer: UnsafeMutableRawBufferPointer) throws(SystemError) -> Int {
        try retryingOnInterrupt("read") { Glibc.read(raw, buffer.baseAddress, buffer.count) }
    }

    /// Writes the whole buffer to a socket, pipe or file position.
    package func writeAll(_ buffer: UnsafeRawBufferPointer) throws(SystemError) {
        var done = 0
        while done < buffer.count {
            done += try retryingOnInterrupt("write") {
                Glibc.write(raw, buffer.baseAddress.map { $0 + done }, buffer.count - done)
            }
        }
    }

    /// fsync(2).
    ///
    /// After an error the kernel may have dropped the pages: never retry it as success.
    package func synchronize() throws(SystemError) {
        _ = try retryingOnInterrupt("fsync") { fsync(raw) }
    }

    /// fdatasync(2); see ``synchronize()`` about errors.
    package func synchronizeData() throws(SystemError) {
        _ = try retryingOnInterrupt("fdatasync") { fdatasync(raw) }
    }

    /// ftruncate(2).
    package func truncate(to size: Int64) throws(SystemError) {
        _ = try retryingOnInterrupt("ftruncate") { ftruncate(raw, Int(size)) }
    }

    /// fstat(2).
    package func status() throws(SystemError) -> FileStatus {
        var status = stat()
        _ = try retryingOnInterrupt("fstat") { fstat(raw, &status) }
        return FileStatus(status)
    }

    /// The value of an extended attribute, nil when it is not set (fgetxattr(2)).
    package func extendedAttribute(_ name: String) throws(SystemError) -> [UInt8]? {
        var capacity = 256
        while true {
            var value = [UInt8](repeating: 0, count: capacity)
            let count = value.withUnsafeMutableBytes { moorage_fgetxattr(raw, name, $0.baseAddress, $0.count) }
            if count >= 0 { return Array(value[..<count]) }
            switch errno {
            case ENODATA, ENOTSUP: return nil
            case ERANGE where capacity < 65_536: capacity = 65_536
            default: throw SystemError.last("fgetxattr", name)
            }
        }
    }

    /// Sets an extended attribute (fsetxattr(2)).
    package func setExtendedAttribute(_ name: String, _ value: [UInt8]) throws(SystemError) {
        let result = value.withUnsafeBytes { bytes in
            var empty: UInt8 = 0
            return withUnsafePointer(to: &empty) { fallback in
                moorage_fsetxattr(raw, name, bytes.baseAddress ?? UnsafeRawPointer(fallback), bytes.count, 0)
            }
        }
        if result != 0 { throw SystemError.last("fsetxattr", name) }
    }
}

extension FileDescriptor {
    /// Lets the process have as many descriptors as it may, up to 65,536 (setrlimit(2)).
    package static func raiseLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = min(limit.rlim_max, 65_536)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    /// How many descriptors the process may have (getrlimit(2)).
    package static var limit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 256 }
        return Int(clamping: limit.rlim_cur)
    }
}

/// Repeats a call until it is not interrupted by a signal, and turns its -1 into a typed error.
package func retryingOnInterrupt<Value: FixedWidthInteger & SignedInteger>(
    _ operation: String,
    _ subject: String? = nil,
    _ call: () -> Value
) throws(SystemError) -> Value {
    while true {
        let result = call()
        if result != -1 { return result }
        if errno != EINTR { throw SystemError.last(operation, subject) }
    }
}

extension SystemError {
    /// The error that errno holds now.
    package static func last(_ operation: String, _ subject: String? = nil) -> SystemError {
        make(errno, operation, subject)
    }

    /// The error of a known errno value.
    package static func make(_ code: Int32, _ operation: String, _ subject: String? = nil) -> SystemError {
        var text = [CChar](repeating: 0, count: 128)
        let reason = description(code, &text)
        return SystemError(code: code, operation: operation, subject: subject, reason: reason)
    }

    private static func description(_ code: Int32, _ buffer: inout [CChar]) -> String {
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
