// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Journal
internal import Platform
internal import Synchronization

/// One open(2) of a file.
package final class FileHandle: Sendable {
    let inode: Inode
    let isReadable: Bool
    let isWritable: Bool
    /// The remote versions read through this handle, each with its own access pattern: one in nearly all cases.
    private let readers = Lock<[CacheReader]>([])
    /// Who reads the file as it was when all of it was one remote version for the first time.
    private let whole = OnceReference<WholeFile>()

    /// A file all of whose bytes are one remote version, until its content changes.
    private final class WholeFile: Sendable {
        let reader: CacheReader
        let range: ByteRange
        let watch: Inode.ContentWatch

        init(_ reader: CacheReader, _ range: ByteRange, _ watch: Inode.ContentWatch) {
            self.reader = reader
            self.range = range
            self.watch = watch
        }
    }

    init(_ inode: Inode, isReadable: Bool, isWritable: Bool) {
        self.inode = inode
        self.isReadable = isReadable
        self.isWritable = isWritable
    }

    /// The kernel keeps what is read or written now; called before the bytes are looked at.
    ///
    /// What a mapping of a file opened with O_DIRECT is filled with looks like a direct read, and does not count.
    package func noteUseOfPages() {
        guard !inode.mayHavePages.load(ordering: .relaxed) else { return }
        inode.mayHavePages.store(true, ordering: .sequentiallyConsistent)
    }

    /// Whether the kernel may hold something of the file.
    package var mayHavePages: Bool { inode.mayHavePages.load(ordering: .sequentiallyConsistent) }

    /// Who reads all of `range`, and what of it lies within the file, when the whole file is one remote version that was
    /// read through this handle before: the usual read, for which no lock is taken and nothing is copied.
    func wholeFileReader(of range: ByteRange) -> (CacheReader, ByteRange)? {
        guard let whole = whole.load(), !whole.watch.hasChanged.load(ordering: .acquiring),
            let part = range.intersection(whole.range)
        else { return nil }
        return (whole.reader, part)
    }

    /// Has ``wholeFileReader(of:)`` find a reader that was used, when what it reads is the whole file.
    func noteWholeFile(readBy reader: CacheReader) {
        guard whole.load() == nil else { return }
        let found = inode.state.withLock { state -> WholeFile? in
            guard let remote = state.content.wholeRemote, state.content.map.extents.isEmpty, remote.key == reader.key,
                remote.version.isSame(as: reader.version)
            else { return nil }
            return WholeFile(reader, ByteRange(0, state.content.map.size), state.watchContent())
        }
        if let found { _ = whole.storeIfNil(found) }
    }

    /// The reader that this handle has of a version, if any.
    func knownReader(of key: ObjectKey, version: ObjectVersion) -> CacheReader? {
        readers.withLock { $0.first { $0.key == key && $0.version.isSame(as: version) } }
    }

    func reader(of key: ObjectKey, version: ObjectVersion, in cache: BlockCache) -> CacheReader {
        if let known = knownReader(of: key, version: version) { return known }
        let reader = cache.reader(of: key, version: version)
        readers.withLock { readers in
            // A chain of local contents names few remote versions; forget those of long ago.
            if readers.count >= 8 { readers.removeFirst() }
            readers.append(reader)
        }
        return reader
    }
}

/// One opendir(3).
package final class DirectoryHandle: Sendable {
    let inode: Inode
    /// The names since the last rewind.
    let stream = Lock<DirectoryStream?>(nil)

    init(_ inode: Inode) {
        self.inode = inode
    }
}
