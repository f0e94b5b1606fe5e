// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CXXHash

/// What the close of a new file leaves until the file has a row: all that the row is made of.
///
/// A record lies in the close log as a head of 32 bytes (the log's nonce, its serial, its length, a checksum), and a body,
/// all little-endian. Records follow each other by their serials from the beginning of the log on; what comes after the
/// last that does is of an earlier time.
struct CloseRecord: Hashable, Sendable {
    /// The checksums of a part of the content, as the journal stores them.
    struct Checksums: Hashable, Sendable {
        let row: Int64
        let covered: [UInt8]
        let sums: [UInt8]
    }

    let serial: UInt64
    let node: NodeID
    let generation: GenerationID
    let path: ObjectKey
    let mode: UInt32
    let uid: UInt32
    let gid: UInt32
    let modified: Timestamp
    let closedAt: Timestamp
    let size: Int64
    let extents: ExtentSet
    let checksums: [Checksums]

    /// The most bytes that a record may have; what needs more gets its row at once.
    static let limit = 8192
    static let headSize = 32

    /// The head of a record, of which nothing else is known.
    struct Head: Hashable, Sendable {
        let nonce: UInt64
        let serial: UInt64
        let length: Int
        let checksum: UInt64

        /// Nil where there are not enough bytes, or a length that no record has.
        init?(_ bytes: some Collection<UInt8>) {
            var reader = ByteReader(bytes.prefix(headSize))
            guard let nonce: UInt64 = reader.integer(), let serial: UInt64 = reader.integer(),
                let length: UInt64 = reader.integer(), let checksum: UInt64 = reader.integer(),
                length >= UInt64(headSize), length <= UInt64(limit)
            else { return nil }
            (self.nonce, self.serial, self.length, self.checksum) = (nonce, serial, Int(length), checksum)
        }

        /// Whether it is the next one of a log, or the first.
        func follows(_ last: Head?) -> Bool {
            guard let last else { return true }
            return nonce == last.nonce && serial == last.serial &+ 1
        }
    }

    /// The bytes of the record in the log with a nonce; nil when they are too many.
    func encoded(nonce: UInt64) -> [UInt8]? {
        var body = ByteWriter()
        for value in [node.value, generation.value, modified.nanoseconds, closedAt.nanoseconds, size] {
            body.append(value)
        }
        for value in [mode, uid, gid] { body.append(value) }
        body.append(list: path.bytes)
        body.append(list: Encoding.encode(extents))
        body.append(UInt32(checksums.count))
        for part in checksums {
            body.append(part.row)
            body.append(list: part.covered)
            body.append(list: part.sums)
        }
        let length = Self.headSize + body.bytes.count
        guard length <= Self.limit else { return nil }
        var record = ByteWriter()
        for value in [nonce, serial, UInt64(length), Self.checksum(nonce, serial, body.bytes[...])] {
            record.append(value)
        }
        return record.bytes + body.bytes
    }

    /// The records of a log, each the next one of the one before, and where they end.
    ///
    /// With the nonce that the log begins with: whether it is the right one is the caller's to know. What is torn or
    /// damaged ends them, and so does what is left of earlier ones.
    static func chain(_ log: [UInt8]) -> (nonce: UInt64, records: [CloseRecord], end: Int)? {
        guard let first = Head(log) else { return nil }
        var records: [CloseRecord] = []
        var last: Head?
        var end = 0
        while let head = Head(log[end...]), head.follows(last), let record = CloseRecord(log[end...], head) {
            records.append(record)
            last = head
            end += head.length
        }
        return (first.nonce, records, end)
    }

    /// The newest record of each file in a chain that has no row.
    ///
    /// `serial`: of the last of which a row was made. What comes after it of a file that has, or had, a row was told to
    /// nobody: who wrote it then changed the row instead.
    static func withoutRows(_ chain: [CloseRecord], after serial: UInt64) -> [CloseRecord] {
        let old = Set(chain.lazy.filter { $0.serial <= serial }.map(\.node))
        var newest: [NodeID: UInt64] = [:]
        for record in chain where !old.contains(record.node) { newest[record.node] = record.serial }
        return chain.filter { newest[$0.node] == $0.serial }
    }
}

extension CloseRecord {
    /// The record at the beginning of some bytes; nil when it is not whole.
    private init?(_ bytes: ArraySlice<UInt8>, _ head: Head) {
        let body = bytes.prefix(head.length).dropFirst(Self.headSize)
        guard body.count == head.length - Self.headSize,
            head.checksum == Self.checksum(head.nonce, head.serial, body)
        else { return nil }
        var reader = ByteReader(body)
        guard let node: Int64 = reader.integer(), let generation: Int64 = reader.integer(),
            let modified: Int64 = reader.integer(), let closedAt: Int64 = reader.integer(),
            let size: Int64 = reader.integer(), size >= 0, let mode: UInt32 = reader.integer(),
            let uid: UInt32 = reader.integer(), let gid: UInt32 = reader.integer(), let path = reader.list(),
            let ranges = reader.list(), let extents = try? Encoding.extents(ranges),
            let checksums = Self.checksums(&reader)
        else { return nil }
        self.init(
            serial: head.serial,
            node: NodeID(node),
            generation: GenerationID(generation),
            path: ObjectKey(bytes: path),
            mode: mode,
            uid: uid,
            gid: gid,
            modified: Timestamp(nanoseconds: modified),
            closedAt: Timestamp(nanoseconds: closedAt),
            size: size,
            extents: extents,
            checksums: checksums
        )
    }

    private static func checksums(_ reader: inout ByteReader) -> [Checksums]? {
        guard let count: UInt32 = reader.integer(), count <= limit else { return nil }
        var result: [Checksums] = []
        for _ in 0..<count {
            guard let row: Int64 = reader.integer(), let covered = reader.list(), let sums = reader.list() else {
                return nil
            }
            result.append(Checksums(row: row, covered: covered, sums: sums))
        }
        return result
    }

    private static func checksum(_ nonce: UInt64, _ serial: UInt64, _ body: ArraySlice<UInt8>) -> UInt64 {
        body.withUnsafeBytes { moorage_XXH3_64bits_withSeed($0.baseAddress, $0.count, nonce ^ serial) }
    }
}

/// Writes numbers, and lists of bytes behind their lengths.
private struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
    }

    mutating func append(list: [UInt8]) {
        append(UInt32(list.count))
        bytes += list
    }
}

/// Reads what ``ByteWriter`` wrote, and no byte beyond the end.
private struct ByteReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) { rest = ArraySlice(bytes) }

    mutating func integer<Value: FixedWidthInteger>() -> Value? {
        let size = MemoryLayout<Value>.size
        guard rest.count >= size else { return nil }
        defer { rest = rest.dropFirst(size) }
        return rest.withUnsafeBytes { Value(littleEndian: $0.loadUnaligned(as: Value.self)) }
    }

    mutating func list() -> [UInt8]? {
        guard let count: UInt32 = integer(), count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return Array(rest.prefix(Int(count)))
    }
}
