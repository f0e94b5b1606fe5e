// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform

/// The bytes that answer a read.
package enum ReadBytes {
    /// A range of an open file, complete.
    case file(Int32, ByteRange)
    case memory(UnsafeRawBufferPointer)
    /// Several pieces of memory that follow each other.
    case pieces([UnsafeRawBufferPointer])
}

/// Reading bytes.
extension FileSystem {
    /// Calls `answer` once with the bytes of `range`, cut at the end of the file.
    ///
    /// Blocks until all of them are there. Never short, never zeros for what could not be fetched: it throws.
    package func read(
        _ handle: FileHandle,
        _ range: ByteRange,
        _ answer: (ReadBytes) -> Void
    ) throws(FileError) {
        guard handle.isReadable else { throw .badHandle }
        for attempt in 0...Self.maximumLooks {
            do throws(FileError) {
                if attempt == 0, let (reader, range) = handle.wholeFileReader(of: range) {
                    return try read(reader, range, answer)
                }
                return try readUncut(handle, range, answer)
            } catch {
                // The remote object under local bytes may have gone because they have been fetched into
                // staging meanwhile, or because our own upload took its place, and the next one that one's.
                guard case .stale = error, attempt < Self.maximumLooks, try lookAnew(at: handle.inode) else {
                    throw error
                }
            }
        }
    }

    /// A file with exactly the bytes that this handle reads, now and for as long as it is open; nil when there is none.
    ///
    /// Only where nobody writes through this mount: what is written would not show in it.
    package func unchangingFile(of handle: FileHandle) -> Int32? {
        unchanging(handle).flatMap { handle.reader(of: $0.key, version: $0.version, in: cache).unchangingFile }
    }

    /// Whether there is one by now; opens nothing to find out.
    package func hasUnchangingFile(_ handle: FileHandle) -> Bool {
        unchanging(handle).flatMap { handle.knownReader(of: $0.key, version: $0.version) }?.hasUnchangingFile ?? false
    }

    /// The object that a handle reads, if nobody changes what it reads through this mount.
    private func unchanging(_ handle: FileHandle) -> (key: ObjectKey, version: ObjectVersion)? {
        guard options.isReadOnly, handle.isReadable else { return nil }
        return handle.inode.state.withLock { $0.content.map.extents.isEmpty ? $0.content.wholeRemote : nil }
    }

    /// Reads once more when the file was cut while its local bytes were read.
    private func readUncut(
        _ handle: FileHandle,
        _ range: ByteRange,
        _ answer: (ReadBytes) -> Void
    ) throws(FileError) {
        for attempt in 0..<17 {
            let look = look(at: handle.inode, wanted: range)
            do throws(FileError) {
                return try readOnce(handle, look, answer)
            } catch {
                guard case .writeFailed = error, attempt < 16 else { throw error }
                let isBeingCut = handle.inode.state.withLock {
                    $0.activeWrites > 0 || $0.revision != look.revision
                }
                guard isBeingCut else { throw error }
                usleep(1000)
            }
        }
    }

    /// What a read finds at one instant.
    private struct Look {
        var revision: Int64
        /// The range within the file; nil behind its end.
        var range: ByteRange?
        /// Where all of it comes from; nil when ``content`` is to be asked.
        var source: FileContent.Segment.Source?
        var content: FileContent?
    }

    private func look(at inode: Inode, wanted: ByteRange) -> Look {
        inode.state.withLock { state in
            let range = wanted.intersection(ByteRange(0, state.content.map.size))
            let source = range.flatMap { state.content.onlySource(of: $0) }
            return Look(
                revision: state.revision,
                range: range,
                source: source,
                content: source == nil ? state.content : nil
            )
        }
    }

    private func readOnce(
        _ handle: FileHandle,
        _ look: Look,
        _ answer: (ReadBytes) -> Void
    ) throws(FileError) {
        guard let range = look.range else { return answer(.memory(UnsafeRawBufferPointer(start: nil, count: 0))) }
        let segments = look.content?.segments(in: range) ?? []
        guard let source = look.source ?? (segments.count == 1 ? segments.first?.source : nil) else {
            return try readAssembled(handle, range, segments, answer)
        }
        switch source {
        case .staging(let file):
            // The kernel takes a short answer for the end of the file, or for zeros.
            let size: Int64
            do { size = try file.descriptor.status().size } catch { throw .system(error) }
            guard size >= range.upper else { throw .writeFailed }
            withExtendedLifetime(file) { answer(.file(file.descriptor.raw, range)) }
        case .unopened: throw .stale
        case .zeros: try readAssembled(handle, range, segments, answer)
        case .remote(let key, let version):
            let reader = handle.reader(of: key, version: version, in: cache)
            handle.noteWholeFile(readBy: reader)
            try read(reader, range, answer)
        }
    }

    private func read(_ reader: CacheReader, _ range: ByteRange, _ answer: (ReadBytes) -> Void) throws(FileError) {
        do throws(StoreError) {
            try reader.read(range) { bytes in
                switch bytes {
                case .whole(let bytes): answer(.memory(bytes))
                case .parts(let parts): answer(.pieces(parts))
                }
            }
        } catch {
            throw FileError(reading: error)
        }
    }

    /// Puts a read together from several places.
    private func readAssembled(
        _ handle: FileHandle,
        _ range: ByteRange,
        _ segments: [FileContent.Segment],
        _ answer: (ReadBytes) -> Void
    ) throws(FileError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(range.count), alignment: 4096)
        defer { buffer.deallocate() }
        for segment in segments {
            let lower = Int(segment.range.lower - range.lower)
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[lower..<lower + Int(segment.range.count)])
            switch segment.source {
            case .unopened: throw .stale
            case .zeros: part.initializeMemory(as: UInt8.self, repeating: 0)
            case .staging(let file):
                try withExtendedLifetime(file) { () throws(FileError) in
                    try fill(part, from: file.descriptor.raw, at: segment.range.lower)
                }
            case .remote(let key, let version):
                let reader = handle.reader(of: key, version: version, in: cache)
                try fill(part, from: reader, segment.range)
            }
        }
        answer(.memory(UnsafeRawBufferPointer(buffer)))
    }

    private func fill(
        _ buffer: UnsafeMutableRawBufferPointer,
        from reader: CacheReader,
        _ range: ByteRange
    ) throws(FileError) {
        do throws(StoreError) {
            try reader.read(range) { $0.copy(to: buffer) }
        } catch {
            throw FileError(reading: error)
        }
    }

    private func fill(
        _ buffer: UnsafeMutableRawBufferPointer,
        from descriptor: Int32,
        at offset: Int64
    ) throws(FileError) {
        let count: Int
        do throws(SystemError) {
            count = try readAll(descriptor, into: buffer, at: offset)
        } catch {
            throw .system(error)
        }
        // A staging file that is shorter than its record has been damaged from outside.
        guard count == buffer.count else { throw .writeFailed }
    }
}
