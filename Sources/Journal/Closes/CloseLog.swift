// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Synchronization

/// The file in which closes of new files are noted until the files have rows.
///
/// It is written by pwrite(2) and not synced: what was written outlives the process, and nobody has been told that it
/// would outlive the machine. One process appends to it, the one that has the names for new files; any process may read it.
///
/// Behind the records, at ``limit``, lie the 8 bytes of the last ``Claim``.
final class CloseLog: Sendable {
    /// The most bytes that it gets.
    static let limit = 1 << 20

    /// How far this process has read.
    struct Place: Hashable, Sendable {
        let nonce: UInt64
        let serial: UInt64
        let end: Int
    }

    /// Who has taken records of the log to make rows of them: another value each time, odd while they are read.
    struct Claim: Hashable, Sendable {
        fileprivate(set) var count: UInt64

        /// Nobody is about to take any.
        var isOver: Bool { count.isMultiple(of: 2) }
    }

    private struct State {
        var descriptor: Int32?
        var seen: Place?
    }

    private let path: String
    private let state = Lock(State())

    init(directory: String) { path = "\(directory)/closes" }

    deinit {
        state.withLock { state in
            if let descriptor = state.descriptor { FileDescriptor(owning: descriptor).close() }
        }
    }

    /// Writes a record; the file is made when it is missing (mode 0600).
    func write(_ record: [UInt8], at offset: Int) throws(SystemError) {
        try state.withLock { state throws(SystemError) in
            guard let descriptor = try Self.open(path, O_CREAT, &state) else { return }
            try Self.write(record, descriptor, path, at: offset)
        }
    }

    private static func write(
        _ bytes: [UInt8],
        _ descriptor: Int32,
        _ path: String,
        at offset: Int
    ) throws(SystemError) {
        var done = 0
        while done < bytes.count {
            done += try retryingOnInterrupt("pwrite", path) {
                bytes[done...].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, offset + done) }
            }
        }
    }

    /// The last claim of any process.
    ///
    /// Whoever reads the same one before and after it has written a record knows that nobody has taken the record before
    /// it meanwhile.
    func claim() throws(SystemError) -> Claim {
        atomicMemoryFence(ordering: .sequentiallyConsistent)
        return try state.withLock { state throws(SystemError) in
            guard let descriptor = try Self.open(path, 0, &state) else { return Claim(count: 0) }
            return try Self.claim(descriptor, path)
        }
    }

    /// All records, for one that makes rows of what it reads; it has the database's lock, so it is the only one.
    func take() throws(SystemError) -> [UInt8] {
        try state.withLock { state throws(SystemError) in
            guard let descriptor = try Self.open(path, 0, &state) else { return [] }
            // One that was killed while it read left an odd one.
            let begun = Claim(count: (try Self.claim(descriptor, path).count &+ 1) | 1)
            try Self.set(begun, descriptor, path)
            atomicMemoryFence(ordering: .sequentiallyConsistent)
            let bytes = try Self.readRecords(descriptor, path)
            try Self.set(Claim(count: begun.count &+ 1), descriptor, path)
            return bytes
        }
    }

    /// Makes claims possible also on a full disk.
    func makeRoomForClaims() {
        do throws(SystemError) {
            let file = try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW | O_CREAT)
            if try Self.read(file.raw, path, Self.limit, 1).isEmpty {
                try Self.set(Claim(count: 0), file.raw, path)
            }
        } catch {
            // Then nothing else can be written to it.
            Log.debug("journal", "\(error)")
        }
    }

    private static func claim(_ descriptor: Int32, _ path: String) throws(SystemError) -> Claim {
        let bytes = try read(descriptor, path, limit, MemoryLayout<UInt64>.size)
        guard bytes.count == MemoryLayout<UInt64>.size else { return Claim(count: 0) }
        return Claim(count: bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) })
    }

    private static func set(_ claim: Claim, _ descriptor: Int32, _ path: String) throws(SystemError) {
        let bytes = withUnsafeBytes(of: claim.count.littleEndian) { Array($0) }
        try write(bytes, descriptor, path, at: limit)
    }

    /// Whether there may be records that this process has not read.
    func hasNews() throws(SystemError) -> Bool {
        try state.withLock { state throws(SystemError) in
            guard let descriptor = try Self.open(path, 0, &state) else { return false }
            guard let first = try Self.head(descriptor, path, 0) else { return false }
            // Behind what was read, or from the beginning, which is written over when all of it has rows.
            var offset = 0
            if let seen = state.seen, seen.nonce == first.nonce, seen.serial >= first.serial {
                offset = seen.end
                guard let next = try Self.head(descriptor, path, offset), next.nonce == seen.nonce,
                    next.serial == seen.serial &+ 1
                else { return false }
            }
            // Of one that was torn nothing more comes.
            return CloseRecord.chain(try Self.read(descriptor, path, offset, CloseRecord.limit))?.records.isEmpty
                == false
        }
    }

    /// All records.
    func read() throws(SystemError) -> [UInt8] {
        try state.withLock { state throws(SystemError) in
            guard let descriptor = try Self.open(path, 0, &state) else { return [] }
            return try Self.readRecords(descriptor, path)
        }
    }

    /// What there is up to a place needs no further look.
    func noteSeen(_ place: Place?) {
        guard let place else { return }
        state.withLock { $0.seen = place }
    }

    private static func head(
        _ descriptor: Int32,
        _ path: String,
        _ offset: Int
    ) throws(SystemError) -> CloseRecord.Head? {
        CloseRecord.Head(try read(descriptor, path, offset, CloseRecord.headSize))
    }

    /// Nil when there is no file and none is to be made.
    private static func open(_ path: String, _ flags: Int32, _ state: inout State) throws(SystemError) -> Int32? {
        if let descriptor = state.descriptor { return descriptor }
        do throws(SystemError) {
            let descriptor = try FileDescriptor.open(path, O_RDWR | O_NOFOLLOW | flags).detach()
            state.descriptor = descriptor
            return descriptor
        } catch {
            guard error.code == ENOENT, flags == 0 else { throw error }
            return nil
        }
    }

    /// The records from the beginning on that follow each other, and little of what lies behind them.
    private static func readRecords(_ descriptor: Int32, _ path: String) throws(SystemError) -> [UInt8] {
        var bytes: [UInt8] = []
        var last: CloseRecord.Head?
        var end = 0
        repeat {
            let piece = try read(descriptor, path, bytes.count, min(pieceSize, limit - bytes.count))
            bytes += piece
            while let head = CloseRecord.Head(bytes.dropFirst(end)), head.follows(last) {
                last = head
                end += head.length
            }
            if piece.count < pieceSize { break }
            // Until there is a head that was read and does not follow.
        } while end + CloseRecord.headSize > bytes.count
        return bytes
    }

    /// In bytes; it divides the limit.
    private static let pieceSize = 1 << 16

    private static func read(
        _ descriptor: Int32,
        _ path: String,
        _ offset: Int,
        _ count: Int
    ) throws(SystemError) -> [UInt8] {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
        defer { bytes.deallocate() }
        return Array(bytes[..<(try readAll(descriptor, into: bytes, at: Int64(offset)))])
    }
}
