// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Which bucket, how to reach it, and how long to try; times are in seconds.
package struct S3StoreConfiguration: Sendable {
    /// Scheme, host and optional port and path, such as `http://127.0.0.1:9000`; nil is AWS in `region`.
    package var endpoint: String?
    package var region: String
    package var bucket: String
    /// The part of the bucket that is the volume, empty or ending with a slash; keys are relative to it.
    package var prefix: ObjectKey
    /// Whether the bucket stands in the path; nil: for every endpoint but AWS.
    package var isPathStyle: Bool?
    package var connectTimeout: Double = 5
    /// How long a transfer may make no progress.
    package var stallTimeout: Double = 30
    /// How long a request that somebody waits for (a lookup, a listing, a read) may take with all its retries.
    package var interactiveTimeout: Double = 10
    /// How long to go on retrying an upload request.
    package var uploadRetryTime: Double = 60
    /// How long the server may work on completing an upload or on a copy.
    package var completionTimeout: Double = 600
    /// Whose scratch objects are: letters and digits that nobody else uses at this remote; nil for anybody's.
    package var scratchOwner: String?

    package init(
        endpoint: String?,
        region: String? = nil,
        bucket: String,
        prefix: ObjectKey = .root,
        isPathStyle: Bool? = nil
    ) {
        self.endpoint = endpoint
        self.region = region ?? "us-east-1"
        self.bucket = bucket
        let slash = UInt8(ascii: "/")
        self.prefix = prefix.isRoot || prefix.bytes.last == slash ? prefix : ObjectKey(bytes: prefix.bytes + [slash])
        self.isPathStyle = isPathStyle
    }
}
