// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What one connection may cost the server; times in seconds.
package struct HTTPLimits: Sendable {
    /// Connections at a time; further ones are answered 503 and closed.
    package var connections = 1024
    /// The request line's target, in bytes; above it 414.
    package var targetBytes = 16_384
    /// Request line and fields together, in bytes; above it 431.
    ///
    /// Also the limit of trailers.
    package var headBytes = 65_536
    /// Field lines of a request; above it 431.
    package var fieldLines = 256
    /// The wait for the first byte of the next request on an open connection.
    package var idleTimeout = 75.0
    /// The same, and the time for a head, when more than half of the connections are in use.
    package var busyIdleTimeout = 5.0
    /// From the first byte of a head to its end.
    package var headTimeout = 20.0
    /// The wait for the next byte of content, or for the other side to take one.
    package var stallTimeout = 60.0
    /// The least number of content bytes that must pass in each `stallTimeout`.
    package var leastBytesPerStallTimeout = 1024
    /// How much unread content is read and dropped to keep a connection open.
    package var drainBytes: Int64 = 262_144
    /// How long unread content is read and dropped, so that the answer is not lost with a reset.
    package var lingerTimeout = 2.0

    package init() {}
}
