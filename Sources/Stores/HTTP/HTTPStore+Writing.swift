// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire
package import ObjectStore

/// What only a writable remote can do: here it fails before anything is sent.
extension HTTPStore {
    private static let readOnly = StoreError(.unsupported, "http remotes are read-only")

    package func put(
        _ key: ObjectKey,
        body: UploadBody,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion {
        throw Self.readOnly
    }

    package func createMultipartUpload(_ key: ObjectKey, metadata: ObjectMetadata) throws(StoreError) -> String {
        throw Self.readOnly
    }

    package func uploadPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        body: UploadBody,
        md5: [UInt8],
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> String {
        throw Self.readOnly
    }

    package func copyPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        source: ObjectKey,
        sourceVersion: ObjectVersion,
        range: ByteRange
    ) throws(StoreError) -> String {
        throw Self.readOnly
    }

    package func listParts(_ key: ObjectKey, uploadID: String) throws(StoreError) -> [UploadedPart] {
        throw Self.readOnly
    }

    package func listMultipartUploads(_ key: ObjectKey) throws(StoreError) -> [UploadInProgress] {
        throw Self.readOnly
    }

    package func serverTime() throws(StoreError) -> Timestamp { throw Self.readOnly }

    package func completeMultipartUpload(
        _ key: ObjectKey,
        uploadID: String,
        parts: [UploadedPart],
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        throw Self.readOnly
    }

    package func abortMultipartUpload(_ key: ObjectKey, uploadID: String) throws(StoreError) {
        throw Self.readOnly
    }

    package func copy(
        _ source: ObjectKey,
        sourceVersion: ObjectVersion,
        to key: ObjectKey,
        metadata: ObjectMetadata?,
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        throw Self.readOnly
    }

    package func delete(_ key: ObjectKey, condition: WriteCondition) throws(StoreError) {
        throw Self.readOnly
    }

    package func creationFields(metadata: ObjectMetadata, condition: WriteCondition) -> HTTPFields { HTTPFields() }

    package func exchange(
        _ exchange: UploadExchange,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> UploadExchangeResponse {
        throw Self.readOnly
    }

    package func learned(_ support: StoreCapabilities.ResumableSupport) {}
}
