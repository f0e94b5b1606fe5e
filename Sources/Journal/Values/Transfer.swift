// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// How content gets to the remote.
package enum TransferProtocol: Int64, Hashable, Sendable, CaseIterable {
    /// One PUT.
    case put = 0
    case multipart = 1
    /// An IETF resumable upload.
    case resumable = 2
    /// A copy by the server; onto itself when only metadata changes.
    case copy = 3
}

package enum TransferPhase: Int64, Hashable, Sendable, CaseIterable {
    /// Preparing or sending; the object at the key is as before.
    case sending = 0
    /// The request that changes the object may have been sent: only a look at the remote tells.
    case committing = 1
}

/// An upload begun at the remote.
///
/// It outlives its row's wishes: what is no longer wanted is aborted, then removed.
package struct Transfer: Hashable, Sendable {
    package let id: TransferID
    package let node: NodeID
    /// What is sent; nil for a symbolic link, whose text is in its row.
    package let generation: GenerationID?
    package let key: ObjectKey
    package var method: TransferProtocol
    package let attributeSequence: ChangeSequence
    /// The newest change of the row when the transfer began.
    package let startSequence: ChangeSequence
    /// The condition of the commit.
    package let base: RemoteBase
    package var phase: TransferPhase
    /// The upload id (multipart) or the upload resource's URL (resumable), a secret either way; nil before it is known.
    package var upload: String?
    /// The interop version of a resumable upload, 0 for the final form.
    package var interopVersion: Int64
    package var partSize: Int64
    /// Which parts of a multipart upload the server copies, as its driver wrote it; nil where all are sent.
    package var composition: [UInt8]?
    package let size: Int64
    /// Bytes that the remote acknowledged.
    package var acknowledged: Int64
    /// The entity tag that the object has if the commit was ours, where it can be computed.
    package var expectedTag: String?
    package let startedAt: Timestamp
}

/// A part of a multipart upload that the remote holds.
package struct TransferPart: Hashable, Sendable {
    /// 1 to 10,000.
    package let number: Int64
    package let size: Int64
    /// The MD5 digest of its bytes.
    package let digest: [UInt8]
    package let entityTag: String

    package init(number: Int64, size: Int64, digest: [UInt8], entityTag: String) {
        self.number = number
        self.size = size
        self.digest = digest
        self.entityTag = entityTag
    }
}

/// Why a transfer is not what its row wants any more.
package enum TransferFate: Hashable, Sendable {
    /// Its row wants exactly this.
    case wanted
    /// Its row has newer content at the same path; the older content may still be finished.
    case superseded
    /// Its row is elsewhere now, with the same content or newer.
    case moved(ObjectKey)
    /// Its row is gone.
    case gone
}

/// A kept record of a conflict.
package struct ConflictRecord: Hashable, Sendable {
    package let id: Int64
    /// Where the remote's version stayed.
    package let path: ObjectKey
    /// Where ours went.
    package let copy: ObjectKey
    package let detectedAt: Timestamp
    /// What the remote was, in words.
    package let remote: String
    /// The version it had; nil when nobody knows, or an earlier version of the program kept the words only.
    package let version: ObjectVersion?
}
