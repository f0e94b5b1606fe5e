// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Journal

extension UploadMethods {
    /// The way a transfer in the journal is sent; nil for a copy.
    init?(_ method: TransferProtocol) {
        switch method {
        case .put: self = .put
        case .multipart: self = .multipart
        case .resumable: self = .resumable
        case .copy: return nil
        }
    }

    var journalled: TransferProtocol {
        switch self {
        case .put: .put
        case .multipart: .multipart
        case .resumable: .resumable
        }
    }
}

extension TransferProtocol {
    /// The name that commands print.
    var name: String {
        switch self {
        case .put: "put"
        case .multipart: "s3-multipart"
        case .resumable: "ietf-resumable"
        case .copy: "copy"
        }
    }
}
