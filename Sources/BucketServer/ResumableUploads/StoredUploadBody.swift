// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform

/// Content that lies whole in a file of the server's private folder, which a storage on the same disk
/// may take over with rename(2) instead of copying it.
package protocol AdoptableRequestBody: HTTPRequestBody {
    /// The file: exactly the content, fsynced, mode 0600, nobody else writes to it.
    ///
    /// After a successful rename nothing more has to be done.
    var path: String { get }
}

/// The content of a completed upload as the plain handler reads it.
final class StoredUploadBody: AdoptableRequestBody, @unchecked Sendable {
    // Used by the handler's thread only.
    private let file: FileDescriptor
    private let size: Int64
    private(set) var bytesRead: Int64 = 0
    let path: String

    init(_ upload: StoredUpload) throws(SystemError) {
        path = upload.dataPath
        size = upload.offset
        file = try upload.openData(O_RDONLY)
    }

    var declaredLength: Int64? { size }
    var trailers: HTTPFields { HTTPFields() }
    var isComplete: Bool { bytesRead == size }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int {
        let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(min(Int64(buffer.count), size - bytesRead))])
        guard !wanted.isEmpty else { return 0 }
        guard let count = try? file.read(into: wanted, at: bytesRead), count > 0 else { throw .cutShort }
        bytesRead += Int64(count)
        return count
    }

    func interrupt() {}
}

/// Catches the answer of a handler that is called on our own behalf.
final class AnswerCatcher: HTTPResponder, @unchecked Sendable {
    // Used by the handler's thread only.
    private(set) var answer: UploadManifest.Answer?

    var hasSentFinal: Bool { answer != nil }

    func sendInformational(_ status: Int, _ fields: HTTPFields) {}

    func send(_ status: Int, _ fields: HTTPFields, _ body: HTTPResponseBody) {
        guard answer == nil else { return }
        var bytes: [UInt8] = []
        // Answers to writes are short documents; a file would be an answer to a read.
        if case .bytes(let content) = body, content.count <= 65_536 { bytes = content }
        answer = UploadManifest.Answer(status: status, fields: fields, body: bytes)
    }
}

/// No content at all.
final class EmptyRequestBody: HTTPRequestBody {
    var declaredLength: Int64? { 0 }
    var bytesRead: Int64 { 0 }
    var trailers: HTTPFields { HTTPFields() }
    var isComplete: Bool { true }
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(HTTPBodyError) -> Int { 0 }
    func interrupt() {}
}
