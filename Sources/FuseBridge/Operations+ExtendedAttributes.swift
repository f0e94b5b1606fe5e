// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import FileSystem
internal import Glibc

/// Extended attributes: Moorage's own, read-only.
extension Operations {
    static func addExtendedAttributes(to table: inout fuse_lowlevel_ops) {
        table.getxattr = { raw, number, text, size in
            guard let request = Request(raw) else { return }
            do throws(FileError) {
                let value = try request.interruptible { () throws(FileError) in
                    try request.fileSystem.extendedAttribute(number, name(text))
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
