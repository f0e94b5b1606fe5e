// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc

/// Extended attributes: Moorage's own, read-only but for the pin and the one that refreshes.
extension Operations {
    static func addExtendedAttributes(to table: inout fuse_lowlevel_ops) {
        table.getxattr = { raw, number, text, size in
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
                if size == 0 {
                    _ = fuse_reply_xattr(request.raw, value.count)
                } else if value.count > size {
                    request.fail(.bufferTooSmall)
                } else {
                    _ = value.withUnsafeBytes {
                        fuse_reply_buf(request.raw, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
                    }
                }
            } catch {
                request.fail(error)
            }
        }
        table.listxattr = { raw, _, size in
            // The virtual attributes are not listed: a copy of a file must not try to carry them along.
            guard let raw else { return }
            _ = size == 0 ? fuse_reply_xattr(raw, 0) : fuse_reply_buf(raw, nil, 0)
        }
        table.setxattr = { raw, number, text, value, size, _ in
            guard let request = Request(raw) else { return }
            if name(text) == Operations.refreshAttribute { return Operations.refreshAfterAnswer(request, number) }
            request.acknowledge { () throws(FileError) in
                let bytes = UnsafeRawBufferPointer(start: value, count: size)
                try request.fileSystem.setExtendedAttribute(number, name(text), Array(bytes))
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
