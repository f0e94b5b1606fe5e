// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Platform

/// One open(2) of a file.
package final class FileHandle: Sendable {
    let inode: Inode
    let isReadable: Bool
    let isWritable: Bool
    /// The remote versions read through this handle, each with its own access pattern: one in nearly all cases.
    private let readers = Lock<[CacheReader]>([])

    init(_ inode: Inode, isReadable: Bool, isWritable: Bool) {
        self.inode = inode
        self.isReadable = isReadable
        self.isWritable = isWritable
    }

    /// The reader of a version that was read before.
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
