// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import S3Wire

/// Reads the content of a request, taking the aws-chunked framing off, and gives it to a sink piece by piece.
struct ContentReceiver {
    private static let bufferSize = 262_144

    private let exchange: S3Exchange
    private let decoder: AWSChunkedDecoder?
    /// The length of the content without framing; nil when it is not known beforehand.
    let length: Int64?

    init(_ exchange: S3Exchange) throws(S3Error) {
        self.exchange = exchange
        guard let (isSigned, hasTrailer) = Self.framing(exchange) else {
            decoder = nil
            length = exchange.body.declaredLength
            return
        }
        if isSigned, exchange.authorization.signer == nil {
            // Nothing is verified on a server without keys; signatures of chunks are passed over.
            decoder = AWSChunkedDecoder(signer: nil, hasTrailer: true)
        } else {
            decoder = AWSChunkedDecoder(signer: exchange.authorization.signer, hasTrailer: hasTrailer)
        }
        guard let text = exchange.fields["x-amz-decoded-content-length"] else {
            throw S3Error(.missingContentLength, "x-amz-decoded-content-length is required")
        }
        guard let value = decimalNumber(text) else {
            throw S3Error(.invalidArgument, "x-amz-decoded-content-length is not a length")
        }
        length = value
    }

    /// Whether the content is in aws-chunked framing, by the declared form or, unsigned, by its coding.
    private static func framing(_ exchange: S3Exchange) -> (isSigned: Bool, hasTrailer: Bool)? {
        // A wrapping handler has content of its own, without the framing.
        if exchange.request.isAuthorized { return nil }
        if case .streaming(let isSigned, let hasTrailer) = exchange.authorization.payload {
            return (isSigned, hasTrailer)
        }
        guard isChunked(exchange.fields) else { return nil }
        return (false, exchange.fields["x-amz-trailer"] != nil)
    }

    /// Whether the content's coding is aws-chunked.
    ///
    /// The coding alone says nothing: other servers keep it and clients repeat it.
    static func isChunked(_ fields: HTTPFields) -> Bool {
        let codings = fields.values("Content-Encoding").flatMap { $0.split(separator: ",") }
        return codings.contains { HTTPFields.equal($0.trimmingSpaces(), "aws-chunked") }
            && fields["x-amz-decoded-content-length"] != nil
    }

    /// Reads to the end; the trailers behind the content.
    func receive(
        _ sink: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(S3Error) -> HTTPFields {
        // Small contents are most: they need no large buffer.
        let capacity = Int(min(Int64(Self.bufferSize), max(4096, exchange.body.declaredLength ?? .max)))
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4096)
        defer { buffer.deallocate() }
        var total: Int64 = 0
        while true {
            let count = try readFull(buffer)
            if count == 0 { break }
            total += try pass(UnsafeRawBufferPointer(rebasing: buffer[..<count]), to: sink)
            if let length, total > length { throw S3Error(.invalidRequest, "The content is longer than declared") }
        }
        guard length == nil || total == length else { throw S3Error(.incompleteBody) }
        guard let decoder else { return exchange.body.trailers }
        guard decoder.isComplete else { throw S3Error(.incompleteBody) }
        return decoder.trailers
    }

    /// Fills the buffer as far as the content goes: large writes and hashes are the cheaper ones.
    private func readFull(_ buffer: UnsafeMutableRawBufferPointer) throws(S3Error) -> Int {
        var filled = 0
        while filled < buffer.count {
            let count: Int
            do {
                count = try exchange.body.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]))
            } catch {
                throw S3Error(body: error)
            }
            if count == 0 { break }
            filled += count
        }
        return filled
    }

    private func pass(
        _ bytes: UnsafeRawBufferPointer,
        to sink: (UnsafeRawBufferPointer) throws(StorageError) -> Void
    ) throws(S3Error) -> Int64 {
        guard let decoder else {
            try inS3 { () throws(StorageError) in try sink(bytes) }
            return Int64(bytes.count)
        }
        var count: Int64 = 0
        var failure: StorageError?
        do throws(AWSChunkedError) {
            try decoder.decode(bytes) { piece in
                count += Int64(piece.count)
                guard failure == nil else { return }
                do throws(StorageError) { try sink(piece) } catch { failure = error }
            }
        } catch {
            switch error {
            case .signatureMismatch: throw S3Error(.signatureDoesNotMatch)
            case .malformed(let reason): throw S3Error(.invalidRequest, "aws-chunked: \(reason)")
            }
        }
        if let failure { throw S3Error(storage: failure) }
        return count
    }
}

extension S3Handler {
    /// The XML document that a request carries, its digests checked.
    func readDocument(_ exchange: S3Exchange) throws(S3Error) -> XMLElement {
        let checks = try ContentChecks(exchange.fields, payload: exchange.authorization.payload)
        let receiver = try ContentReceiver(exchange)
        let limit: Int64 = 8 << 20
        guard receiver.length ?? 0 <= limit else { throw S3Error(.malformedXML, "The document is too large") }
        var document: [UInt8] = []
        let trailers = try receiver.receive { (bytes) throws(StorageError) in
            // What is too much stays out; the parser then refuses the rest.
            if Int64(document.count) <= limit { document.append(contentsOf: bytes) }
            checks.update(bytes)
        }
        _ = try checks.finish(trailers: trailers)
        do {
            return try XMLReader.parse(document)
        } catch {
            throw S3Error(.malformedXML, error.description)
        }
    }
}
