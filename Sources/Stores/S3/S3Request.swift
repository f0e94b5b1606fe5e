// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import S3Wire

/// A request to the bucket before it is signed, with how it may be retried.
struct S3Request: Sendable {
    enum Urgency: Sendable {
        /// Somebody waits: the interactive time limit covers everything.
        case interactive
        /// Body data flows: limited by stalling only.
        case upload
        /// The server works long before it answers.
        case completion
    }

    var method: String
    /// The full key, prefix included; nil is the bucket.
    var key: ObjectKey?
    var query = URLQuery()
    var fields = HTTPFields()
    var body: TransferBody?
    var urgency = Urgency.interactive
    /// Whether it may be sent again after an answer was lost.
    var isRepeatable = true
    /// How often it is sent at most.
    var attempts = RetryPolicy.usualAttempts
    /// The largest answer to take into memory.
    var answerLimit = 1 << 20

    init(_ method: String, _ key: ObjectKey?) {
        self.method = method
        self.key = key
    }
}
