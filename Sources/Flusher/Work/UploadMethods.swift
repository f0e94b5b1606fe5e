// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Journal
internal import ObjectStore
internal import ResumableUpload

/// The ways content is sent, in the words of the protocol machines.
enum UploadMethods: Hashable, Sendable {
    case put
    case multipart
    case resumable

    /// Whether the server may be asked to put content together from what it has and what is sent.
    static func mayCompose(demanded: String, capabilities: StoreCapabilities) -> Bool {
        let isAllowed = TransferProtocol(rawValue: demanded).map { $0 == .s3Multipart } ?? true
        return isAllowed && capabilities.multipart != false && capabilities.partCopy != false
    }

    /// What to try for content of `size` bytes, best first; `demanded` is the configuration's word.
    static func candidates(demanded: String, capabilities: StoreCapabilities, size: Int64) -> [UploadMethods] {
        let choice = UploadProtocolChoice(
            demanded: TransferProtocol(rawValue: demanded),
            multipart: capabilities.multipart,
            resumable: ResumableSupport(capabilities.resumableUpload)
        )
        return choice.candidates(size: size).map { method in
            switch method {
            case .put: .put
            case .s3Multipart: .multipart
            case .ietfResumable: .resumable
            }
        }
    }
}

extension VolumeSession {
    /// Whether a row's content goes in one piece, as far as is known before its upload begins.
    func sendsWhole(_ node: JournalNode) -> Bool {
        guard node.kind == .file, let generation = node.generation, generation.underlay == .none else { return false }
        // What was begun in parts goes on in parts.
        if let begun = transfer(of: node).flatMap({ UploadMethods($0.method) }), begun != .put { return false }
        let candidates = UploadMethods.candidates(
            demanded: description.uploadProtocol,
            capabilities: store?.capabilities ?? StoreCapabilities(),
            size: node.size
        )
        return candidates.first == .put
    }
}
