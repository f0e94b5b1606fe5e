// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import HTTPWire
internal import Platform

/// Takes the content of one request into an upload's file.
///
/// Everything that arrived is kept, also when the request breaks off; what is acknowledged is on disk.
struct UploadReceiver {
    /// Why a request's content was not taken wholly.
    enum Failure: Error {
        case body(HTTPBodyError)
        case storage(SystemError)
        /// More came than the upload may hold; nothing above the limit was taken.
        case tooLong
        /// The content's digest is not the promised one; nothing was taken.
        case digestMismatch
    }

    private static let bufferSize = 256 << 10
    /// Interim answers of one request: some clients count them all together.
    private static let acknowledgementLimit = 1000
    private static let acknowledgementInterval = 1.0

    let upload: StoredUpload
    let body: any HTTPRequestBody
    /// The offset no byte may go beyond.
    let limit: Int64
    let promised: [PromisedDigest]
    /// Tells the client an offset that is on disk; nil when its version has no way to hear it.
    let acknowledge: ((Int64) -> Void)?

    /// Receives until the end of the content; the upload's offset then tells how far it came, also on errors.
    func run() throws(Failure) {
        let start = upload.offset
        let file = try open(at: start)
        upload.receives(body)
        defer { upload.receivesNothing() }
        do throws(Failure) {
            let digests = promised.map { Digest($0.algorithm) }
            try receive(file, from: start, digests: digests)
            for (promise, digest) in zip(promised, digests) where !promise.isKept(by: digest) {
                throw Failure.digestMismatch
            }
            try synchronize(file)
        } catch {
            try settle(file, start: start, error)
            throw error
        }
    }

    /// Opens the file and cuts what a crash may have left above the offset that was told.
    private func open(at start: Int64) throws(Failure) -> FileDescriptor {
        do throws(SystemError) {
            let file = try upload.openData(O_WRONLY)
            try file.truncate(to: start)
            return file
        } catch {
            throw .storage(error)
        }
    }

    private func receive(_ file: borrowing FileDescriptor, from start: Int64, digests: [Digest]) throws(Failure) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.bufferSize, alignment: 4096)
        defer { buffer.deallocate() }
        var offset = start
        var pacer = Pacer(now: monotonicSeconds())
        while true {
            let count = try read(into: buffer)
            guard count > 0 else { return }
            guard offset + Int64(count) <= limit else { throw .tooLong }
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            try write(file, bytes, at: offset)
            for digest in digests { digest.update(bytes) }
            offset += Int64(count)
            upload.advance(to: offset)
            // With a promised digest nothing is accepted before the whole content was seen.
            guard let acknowledge, digests.isEmpty, pacer.isDue(now: monotonicSeconds()) else { continue }
            try synchronize(file)
            acknowledge(offset)
        }
    }

    private func read(into buffer: UnsafeMutableRawBufferPointer) throws(Failure) -> Int {
        do throws(HTTPBodyError) {
            return try body.read(into: buffer)
        } catch {
            throw .body(error)
        }
    }

    private func write(
        _ file: borrowing FileDescriptor,
        _ bytes: UnsafeRawBufferPointer,
        at offset: Int64
    ) throws(Failure) {
        do throws(SystemError) {
            try file.write(bytes, at: offset)
        } catch {
            throw .storage(error)
        }
    }

    private func synchronize(_ file: borrowing FileDescriptor) throws(Failure) {
        do throws(SystemError) {
            try file.synchronizeData()
        } catch {
            throw .storage(error)
        }
    }

    /// After a failure: takes back what must not stay, makes durable what may.
    private func settle(_ file: borrowing FileDescriptor, start: Int64, _ failure: Failure) throws(Failure) {
        switch failure {
        case .digestMismatch: upload.advance(to: start)
        case .storage(let error) where error.operation == "fdatasync":
            // The kernel may have dropped what it could not write.
            upload.advance(to: start)
        default: break
        }
        do throws(SystemError) {
            try file.truncate(to: upload.offset)
            try file.synchronizeData()
        } catch {
            upload.advance(to: start)
            throw .storage(error)
        }
    }

    /// Rations acknowledgements.
    private struct Pacer {
        private var last: Double
        private var count = 0

        init(now: Double) { last = now }

        mutating func isDue(now: Double) -> Bool {
            guard now - last >= acknowledgementInterval, count < acknowledgementLimit else { return false }
            last = now
            count += 1
            return true
        }
    }
}
