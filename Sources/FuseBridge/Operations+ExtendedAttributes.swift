// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc

/// Extended attributes: those kept with the objects, and Moorage's own.
extension Operations {
    static func addExtendedAttributes(to table: inout fuse_lowlevel_ops) {
        table.getxattr = { raw, number, text, size in
            // Before every write the kernel asks for security.capability: no lock is taken for the answer.
            guard isKnown(text) else { return refuse(raw) }
            guard let request = Request(raw) else { return }
            do throws(FileError) {
                let value = try request.interruptible { () throws(FileError) in
                    guard name(text) == Operations.refreshAttribute else {
                        return try request.fileSystem.extendedAttribute(number, name(text))
                    }
                    // Asked for its length only, nothing is to happen yet.
                    if size > 0 { try Operations.refresh(request, number) }
                    return Array("1".utf8)
                }
                answer(request, value, size)
            } catch {
                request.fail(error)
            }
        }
        table.listxattr = { raw, number, size in
            guard let request = Request(raw) else { return }
            do throws(FileError) {
                let names = try request.interruptible { () throws(FileError) in
                    try request.fileSystem.extendedAttributes(number, caller: request.caller)
                }
                answer(request, names.flatMap { $0.bytes + [0] }, size)
            } catch {
                request.fail(error)
            }
        }
        table.setxattr = { raw, number, text, value, size, flags in
            guard isKnown(text) else { return refuse(raw) }
            guard let request = Request(raw) else { return }
            if name(text) == Operations.refreshAttribute { return Operations.refreshAfterAnswer(request, number) }
            request.acknowledge { () throws(FileError) in
                let bytes = Array(UnsafeRawBufferPointer(start: value, count: size))
                try request.fileSystem.setExtendedAttribute(number, name(text), bytes, try condition(flags))
            }
        }
        table.removexattr = { raw, number, text in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                try request.fileSystem.removeExtendedAttribute(number, name(text))
            }
        }
    }
}

/// Whether attributes of such a name exist here at all.
private func isKnown(_ name: UnsafePointer<CChar>?) -> Bool {
    guard let name else { return false }
    if strncmp(name, "user.", 5) == 0 || strncmp(name, "trusted.", 8) == 0 { return true }
    // The kernel asks for it at the first write to a file: answered without a look at the file.
    return strncmp(name, "security.", 9) == 0 && strcmp(name, "security.capability") != 0
}

private func refuse(_ raw: fuse_req_t?) {
    if let raw { _ = fuse_reply_err(raw, FileError.notSupported.code) }
}

/// Answers with a value, or with its length where that was asked for.
private func answer(_ request: Request, _ value: [UInt8], _ size: Int) {
    if size == 0 {
        _ = fuse_reply_xattr(request.raw, value.count)
    } else if value.count > size {
        request.fail(.bufferTooSmall)
    } else {
        _ = value.withUnsafeBytes {
            fuse_reply_buf(request.raw, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
        }
    }
}

private func condition(_ flags: Int32) throws(FileError) -> ExtendedAttributeCondition {
    switch flags {
    case 0: .any
    // XATTR_CREATE and XATTR_REPLACE
    case 1: .absent
    case 2: .present
    default: throw .invalidArgument
    }
}

/// Letting go of what is known of the remote, for `moorage cache refresh` and setfattr(1).
extension Operations {
    fileprivate static let refreshAttribute = ObjectKey("user.moorage.refresh")

    fileprivate static func refresh(_ request: Request, _ number: fuse_ino_t) throws(FileError) {
        request.bridge.kernelNames.expire(try request.fileSystem.refresh(number))
    }

    /// The kernel keeps the inode locked until setxattr(2) is answered, and needs that lock to let go of names in it.
    fileprivate static func refreshAfterAnswer(_ request: Request, _ number: fuse_ino_t) {
        let (fileSystem, kernelNames) = (request.fileSystem, request.bridge.kernelNames)
        do throws(FileError) {
            let names = try fileSystem.refresh(number)
            _ = fuse_reply_err(request.raw, 0)
            kernelNames.expire(names)
        } catch {
            request.fail(error)
        }
    }
}
