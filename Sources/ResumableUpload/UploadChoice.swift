// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How content gets to the remote.
///
/// The raw values are what commands and the journal show.
package enum TransferProtocol: String, Hashable, Sendable, CaseIterable {
    case put
    case s3Multipart = "s3-multipart"
    case ietfResumable = "ietf-resumable"
}

/// The pure choice of a protocol for one upload.
package struct UploadProtocolChoice: Hashable, Sendable {
    /// The protocol the configuration demands; nil chooses by what the server can do.
    package var demanded: TransferProtocol?
    /// Multipart uploads work at this server, nil while unknown.
    package var multipart: Bool?
    package var resumable: ResumableSupport

    /// Content below this is sent in one PUT: sending it again costs less than the requests that would avoid it.
    package static let resumptionThreshold: Int64 = 8 << 20
    /// The most a single PUT takes on S3, in bytes.
    package static let putLimit: Int64 = 5 << 30

    package init(demanded: TransferProtocol? = nil, multipart: Bool? = nil, resumable: ResumableSupport = .unknown) {
        self.demanded = demanded
        self.multipart = multipart
        self.resumable = resumable
    }

    /// The protocols to try for content of `size` bytes, best first; never empty.
    ///
    /// The next one is tried when one turns out to be unsupported.
    package func candidates(size: Int64) -> [TransferProtocol] {
        if let demanded { return size == 0 ? [.put] : [demanded] }
        guard size >= Self.resumptionThreshold else { return [.put] }
        var result: [TransferProtocol] = []
        if resumable != .none { result.append(.ietfResumable) }
        if multipart != false { result.append(.s3Multipart) }
        if size <= Self.putLimit || result.isEmpty { result.append(.put) }
        return result
    }
}
