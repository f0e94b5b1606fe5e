// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Which files a cache that is too full gives up: segmented LRU, by file.
///
/// A pure value. A file is on *probation* until it is used again some time after its first use; then it is
/// *protected*. The least recently used of those on probation go first, as long as they take more than a tenth
/// of the space; then the least recently used of the protected. So one pass over many files, each used once, cannot
/// displace what is used again and again, and what was, but is not any more, goes in the end.
///
/// Both marks live in the file's own inode (see ``CacheUse``), so the policy needs no index that
/// would have to survive a crash or be shared by processes, and it may be asked about a sample of the files.
package struct EvictionPolicy: Hashable, Sendable {
    /// What counts of a file.
    package struct File: Hashable, Sendable {
        /// The space it takes on the disk.
        package var bytes: Int64
        /// In nanoseconds since 1970.
        package var lastUse: Int64
        package var isProtected: Bool

        package init(bytes: Int64, lastUse: Int64, isProtected: Bool) {
            self.bytes = bytes
            self.lastUse = lastUse
            self.isProtected = isProtected
        }
    }

    /// The part of the space that files on probation are left when there are protected ones, in per cent.
    package static let probationShare: Int64 = 10
    /// Of a sample of the files, at most this part goes at once, in per cent: others may be older.
    package static let sampleShare = 25

    /// The indices of the files to give up, to free `surplus` bytes or as much as there is.
    ///
    /// `isSample`: the files are not all there are.
    package static func victims(of files: [File], surplus: Int64, isSample: Bool) -> [Int] {
        let order = files.indices.sorted { files[$0].lastUse < files[$1].lastUse }
        var probation = order.filter { !files[$0].isProtected }[...]
        var protected = order.filter { files[$0].isProtected }[...]
        var total = files.reduce(0) { $0 + $1.bytes }
        var onProbation = probation.reduce(0) { $0 + files[$1].bytes }
        var removed: Int64 = 0
        var victims: [Int] = []
        let most = isSample ? max(1, files.count * sampleShare / 100) : files.count
        while removed < surplus, victims.count < most {
            let isOverShare = onProbation * 100 > total * probationShare
            let next: Int
            if let first = probation.first, isOverShare || protected.isEmpty {
                next = first
                probation.removeFirst()
                onProbation -= files[next].bytes
            } else if let first = protected.first {
                next = first
                protected.removeFirst()
            } else {
                break
            }
            victims.append(next)
            total -= files[next].bytes
            removed += files[next].bytes
        }
        return victims
    }
}

/// What the files of a cache take, by the folder they are in: a pure value of fixed size.
///
/// Folders are measured one after the other, a few each time, and round again. Files are spread evenly by the hash that
/// names them, so those that were measured tell about the others.
package struct FolderSizes: Sendable {
    /// The folders that files are spread over by the first two digits of their names.
    package static let count = 256

    /// In bytes; nil before the folder was measured.
    private var sizes = [Int64?](repeating: nil, count: count)
    private var measured = 0
    /// The folder to measure next.
    package private(set) var next = 0

    package init() {}

    /// Whether each folder was measured.
    package var isComplete: Bool { measured == Self.count }

    /// What all files take, in bytes; an estimate until each folder was measured.
    package var total: Int64 {
        guard measured > 0 else { return 0 }
        return sizes.reduce(0) { $0 + ($1 ?? 0) } * Int64(Self.count) / Int64(measured)
    }

    /// Notes what the files of a folder take; goes on to the next one when it was its turn.
    package mutating func measured(_ folder: Int, bytes: Int64) {
        if sizes[folder] == nil { measured += 1 }
        sizes[folder] = max(0, bytes)
        if folder == next { next = (next + 1) % Self.count }
    }

    /// Notes bytes that a folder's files take more, or less, since it was measured.
    package mutating func add(_ bytes: Int64, to folder: Int) {
        sizes[folder] = sizes[folder].map { max(0, $0 + bytes) }
    }

    static func name(_ folder: Int) -> String { (folder < 16 ? "0" : "") + String(folder, radix: 16) }

    /// The folder of a file with this name.
    static func folder(of name: String) -> Int { Int(name.prefix(2), radix: 16) ?? 0 }
}
