// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Feeds a body to libcurl, from the start again when libcurl has to repeat a request.
struct BodyReader {
    let body: TransferBody
    let isReplayable: Bool
    /// How many bytes libcurl has taken; all before the latest piece have left the process.
    private(set) var position: Int64 = 0
    private(set) var problem: String?
    private let file: CheckedReader?

    init(_ body: TransferBody, isReplayable: Bool) {
        self.body = body
        self.isReplayable = isReplayable
        switch body {
        case .file(let descriptor, _, let check): file = CheckedReader(descriptor, check)
        case .bytes: file = nil
        }
    }

    /// Fills the buffer as far as there is data; nil when reading failed.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        let wanted = Int(min(Int64(buffer.count), body.count - position))
        guard wanted > 0 else { return 0 }
        let target = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
        switch body {
        case .bytes(let bytes):
            bytes.withUnsafeBytes { target.copyMemory(from: .init(rebasing: $0[Int(position)...].prefix(wanted))) }
        case .file(_, let range, _):
            guard readFile(at: range.lower + position, into: target) else { return nil }
        }
        position += Int64(wanted)
        return wanted
    }

    private mutating func readFile(at offset: Int64, into target: UnsafeMutableRawBufferPointer) -> Bool {
        do throws(SystemError) {
            try file?.read(into: target, at: offset)
            return true
        } catch {
            problem = "the file to send: \(error.description)"
            return false
        }
    }

    /// Goes back to repeat a request; false where the body must not be sent twice.
    mutating func seek(to offset: Int64) -> Bool {
        guard offset >= 0, offset <= body.count, isReplayable || position == 0 else { return false }
        position = offset
        return true
    }
}
