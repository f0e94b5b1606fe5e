// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Journal
package import Platform

/// What fallocate(2) asks for.
package enum SpaceChange: Hashable, Sendable {
    /// The disk holds the space of the range, the bytes stay.
    case allocate(keepingSize: Bool)
    /// The range reads as zeros and takes no space; the size stays.
    case punchHole
    /// The range reads as zeros and its space is held.
    case zero(keepingSize: Bool)

    /// Whether a range that ends behind the end of the file makes it longer.
    var canGrow: Bool {
        switch self {
        case .allocate(let keepsSize), .zero(let keepsSize): !keepsSize
        case .punchHole: false
        }
    }
}

/// Space and holes.
extension FileSystem {
    /// Takes or gives back the local space of a range (fallocate(2)).
    ///
    /// Bytes that are made zero count as written: the staging file has a hole or zeros there, which hides what the
    /// remote has. Nothing is fetched.
    package func change(_ handle: FileHandle, _ range: ByteRange, _ change: SpaceChange) throws(FileError) {
        guard handle.isWritable else { throw .badHandle }
        guard range.upper <= Self.maximumSize || change == .punchHole else { throw .tooLarge }
        if change != .punchHole {
            try stagingBound?.claim(range.count)
            try reserve.claim(range.count)
        }
        let inode = handle.inode
        let staging = try beginWrite(inode)
        let size = inode.state.withLock { $0.content.map.size }
        let within = change.canGrow ? range : range.intersection(ByteRange(0, size))
        let result = Result { () throws(SystemError) in
            try staging.descriptor.change(range, within: within, change)
        }
        inode.state.withLock { state in
            state.activeWrites -= 1
            staging.checksums.forget(range)
            guard case .success = result, let within, state.content.map.note(change, within) else { return }
            state.revision += 1
            state.noteContentChange()
        }
        do { try result.get() } catch { throw .system(error) }
    }

    /// The offset of the next data or hole at or behind `offset` (lseek(2)); ENXIO when there is none.
    ///
    /// It says data where it cannot tell: of what the remote has, and of all of a file that may be mapped, since the
    /// kernel keeps bytes that were written to a mapping for a while.
    package func seek(_ handle: FileHandle, to target: SeekTarget, from offset: Int64) throws(FileError) -> Int64 {
        let (content, isMapped) = handle.inode.state.withLock { ($0.content, $0.mappers > 0) }
        guard offset >= 0, offset < content.map.size else { throw .system(SystemError.make(ENXIO, "lseek")) }
        if isMapped { return target == .data ? offset : content.map.size }
        do throws(SystemError) {
            if let found = try content.next(target, from: offset) { return found }
        } catch {
            throw .system(error)
        }
        if target == .hole { return content.map.size }
        throw .system(SystemError.make(ENXIO, "lseek"))
    }
}

extension FileDescriptor {
    /// Does a change of `range`, of which `within` is the part that counts as the file's.
    ///
    /// The staging file is then as long as the last byte that is taken from it.
    fileprivate func change(_ range: ByteRange, within: ByteRange?, _ change: SpaceChange) throws(SystemError) {
        switch change {
        case .allocate(let keepingSize): try allocate(range, keepingSize: keepingSize)
        case .punchHole:
            try extend(to: within?.upper ?? 0)
            try clear(range)
        case .zero(let keepingSize):
            if keepingSize { try extend(to: within?.upper ?? 0) }
            try zero(range, keepingSize: keepingSize)
        }
    }
}

extension ContentMap {
    /// Notes what was done to a range of the staging file; false when the file is what it was.
    mutating func note(_ change: SpaceChange, _ range: ByteRange) -> Bool {
        switch change {
        case .punchHole, .zero: write(range)
        case .allocate:
            guard change.canGrow, range.upper > size else { return false }
            truncate(to: range.upper)
        }
        return true
    }
}

extension FileContent {
    /// The next data or hole at or behind `offset`, which lies within the file; nil when there is none before its end.
    func next(_ target: SeekTarget, from offset: Int64) throws(SystemError) -> Int64? {
        for segment in segments(in: ByteRange(offset, map.size)) {
            switch (segment.source, target) {
            case (.zeros, .hole), (.remote, .data), (.unopened, .data): return segment.range.lower
            case (.zeros, .data), (.remote, .hole), (.unopened, .hole): continue
            case (.staging(let file), _):
                if let found = try file.next(target, in: segment.range) { return found }
            }
        }
        return nil
    }
}

extension StagingFile {
    /// The next data or hole of a range; nil when there is none.
    fileprivate func next(_ target: SeekTarget, in range: ByteRange) throws(SystemError) -> Int64? {
        // A file that is too short is damaged, and no hole.
        guard try descriptor.status().size >= range.upper else { return target == .data ? range.lower : nil }
        guard let found = try descriptor.next(target, from: range.lower), found < range.upper else { return nil }
        return found
    }
}
