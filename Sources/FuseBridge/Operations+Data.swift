// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
internal import CShims
internal import FileSystem
internal import Glibc
internal import Platform

/// Reading and writing bytes.
extension Operations {
    static func addData(to table: inout fuse_lowlevel_ops) {
        table.read = { raw, _, size, offset, info in
            guard let request = Request(raw) else { return }
            guard let handle = handle(info, FileHandle.self) else { return request.fail(.badHandle) }
            if !Operations.isDirect(info) { handle.noteUseOfPages() }
            Operations.read(request, handle, ByteRange(offset: Int64(offset), count: Int64(size)))
        }
        table.write_buf = { raw, number, buffer, offset, info in
            guard let request = Request(raw), let buffer else { return }
            guard let handle = handle(info, FileHandle.self) else { return request.fail(.badHandle) }
            let isWriteback = info?.pointee.writepage == 1
            let isDirect = Operations.isDirect(info) && !isWriteback
            if !isDirect { handle.noteUseOfPages() }
            Operations.write(request, handle, buffer, Int64(offset), isWriteback: isWriteback) { written in
                if written > 0, isDirect, handle.mayHavePages {
                    request.bridge.pages.drop(number, ByteRange(offset: Int64(offset), count: Int64(written)))
                }
            }
        }
        table.fallocate = { raw, _, mode, offset, length, info in
            guard let request = Request(raw) else { return }
            request.acknowledge { () throws(FileError) in
                guard let handle = handle(info, FileHandle.self) else { throw .badHandle }
                guard let change = SpaceChange(fallocateMode: mode) else { throw .notSupported }
                guard offset >= 0, length > 0, !offset.addingReportingOverflow(length).overflow else {
                    throw .invalidArgument
                }
                let range = ByteRange(offset: Int64(offset), count: Int64(length))
                try request.fileSystem.change(handle, range, change)
            }
        }
        table.lseek = { raw, _, offset, whence, info in
            guard let request = Request(raw) else { return }
            Operations.seek(request, handle(info, FileHandle.self), Int64(offset), whence)
        }
    }

    private static func seek(_ request: Request, _ handle: FileHandle?, _ offset: Int64, _ whence: Int32) {
        do throws(FileError) {
            guard let handle else { throw .badHandle }
            let target: SeekTarget
            switch whence {
            case moorage_SEEK_DATA: target = .data
            case moorage_SEEK_HOLE: target = .hole
            default: throw .invalidArgument
            }
            _ = fuse_reply_lseek(request.raw, off_t(try request.fileSystem.seek(handle, to: target, from: offset)))
        } catch {
            request.fail(error)
        }
    }

    private static func read(_ request: Request, _ handle: FileHandle, _ range: ByteRange) {
        do throws(FileError) {
            try request.interruptible { () throws(FileError) in
                // Nothing is waited for once it is answered.
                try request.fileSystem.read(handle, range) { bytes in answer(request, bytes) }
            }
        } catch {
            request.fail(error)
        }
    }

    private static func answer(_ request: Request, _ bytes: ReadBytes) {
        switch bytes {
        case .file(let descriptor, let part):
            _ = moorage_fuse_reply_fd(request.raw, descriptor, off_t(part.lower), Int(part.count))
        case .memory(let buffer):
            _ = fuse_reply_buf(request.raw, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        case .pieces(let pieces):
            let vector = pieces.map {
                iovec(iov_base: UnsafeMutableRawPointer(mutating: $0.baseAddress), iov_len: $0.count)
            }
            _ = fuse_reply_iov(request.raw, vector, Int32(vector.count))
        }
    }

    private static func write(
        _ request: Request,
        _ handle: FileHandle,
        _ buffer: UnsafeMutablePointer<fuse_bufvec>,
        _ offset: Int64,
        isWriteback: Bool,
        _ beforeAnswer: (Int) -> Void
    ) {
        do throws(FileError) {
            let range = ByteRange(offset: offset, count: Int64(fuse_buf_size(buffer)))
            let written = try request.interruptible { () throws(FileError) in
                try request.fileSystem.write(handle, range, isWriteback: isWriteback) { target in
                    moorage_fuse_buf_copy_to_fd(buffer, target, off_t(offset))
                }
            }
            beforeAnswer(written)
            _ = fuse_reply_write(request.raw, written)
        } catch {
            request.fail(error)
        }
    }

    /// Whether a request goes past the kernel's memory of the file.
    private static func isDirect(_ info: UnsafeMutablePointer<fuse_file_info>?) -> Bool {
        info.map { $0.pointee.flags & moorage_O_DIRECT != 0 } ?? false
    }
}

extension SpaceChange {
    /// What a mode of fallocate(2) asks for; nil for those that move bytes, which nothing can do with an object.
    init?(fallocateMode mode: Int32) {
        switch mode {
        case 0: self = .allocate(keepingSize: false)
        case moorage_FALLOC_FL_KEEP_SIZE: self = .allocate(keepingSize: true)
        case moorage_FALLOC_FL_PUNCH_HOLE | moorage_FALLOC_FL_KEEP_SIZE: self = .punchHole
        case moorage_FALLOC_FL_ZERO_RANGE: self = .zero(keepingSize: false)
        case moorage_FALLOC_FL_ZERO_RANGE | moorage_FALLOC_FL_KEEP_SIZE: self = .zero(keepingSize: true)
        default: return nil
        }
    }
}
