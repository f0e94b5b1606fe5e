// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// Counts requests and content bytes by method since the start of the server.
package final class ServerStatistics: Sendable {
    /// What one method did.
    package struct Counters: Hashable, Sendable {
        package var requests: Int64 = 0
        /// Content bytes that arrived, also of requests that were cut.
        package var received: Int64 = 0
        package var sent: Int64 = 0
    }

    private static let methods: Set<String> = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"]
    private let counters = Lock<[String: Counters]>([:])

    package init() {}

    /// The counters by method; methods nobody knows are counted together as `OTHER`.
    package var snapshot: [String: Counters] { counters.withLock { $0 } }

    func countRequest(_ method: String) { update(method) { $0.requests += 1 } }
    func countReceived(_ method: String, _ bytes: Int) { update(method) { $0.received += Int64(bytes) } }
    func countSent(_ method: String, _ bytes: Int64) { update(method) { $0.sent += bytes } }

    private func update(_ method: String, _ change: (inout Counters) -> Void) {
        let name = Self.methods.contains(method) ? method : "OTHER"
        counters.withLock { change(&$0[name, default: Counters()]) }
    }

    /// The counters as one JSON document.
    package var json: String {
        let sorted = snapshot.sorted { $0.key < $1.key }
        func object(_ value: (Counters) -> Int64) -> String {
            "{" + sorted.map { "\"\($0.key)\":\(value($0.value))" }.joined(separator: ",") + "}"
        }
        return "{\"requests\":\(object(\.requests)),\"body_bytes_received\":\(object(\.received)),"
            + "\"body_bytes_sent\":\(object(\.sent))}\n"
    }
}
