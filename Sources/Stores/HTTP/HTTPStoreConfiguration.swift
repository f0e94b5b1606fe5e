// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A folder of a web server, how to reach it, and how long to try; times are in seconds.
package struct HTTPStoreConfiguration: Sendable {
    /// Ends with a slash.
    package var root: WebURL
    /// Sent to the root's origin only.
    package var credentials: HTTPCredentials?
    /// Whether the transport's client certificate is shown to the root's origin.
    package var hasClientCertificate = false
    /// Where content that must be read in one piece is kept while it is in use, in files without a name.
    package var spoolDirectory: String
    /// How many bytes may be kept there.
    package var spoolLimit: Int64 = 1 << 30
    package var connectTimeout: Double = 5
    /// How long a transfer may make no progress.
    package var stallTimeout: Double = 30
    /// How long a request that somebody waits for may take with all its retries.
    package var interactiveTimeout: Double = 10
    /// How long a listing may take.
    package var listingTimeout: Double = 60
    /// How long a file is taken for the same when the server does not tell.
    package var metadataAge: Double = 10

    package init(root: WebURL, spoolDirectory: String) {
        self.root = root
        self.spoolDirectory = spoolDirectory
    }
}
