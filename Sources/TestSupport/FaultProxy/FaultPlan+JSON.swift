// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The counters as JSON, for other processes.
extension FaultPlan {
    func statisticsJSON(connections: Int) -> String {
        let kinds = totals.sorted { $0.key.description < $1.key.description }.map { kind, totals in
            "\(quoted(kind.description)):{\"requests\":\(totals.requests),"
                + "\"request_bytes\":\(totals.requestBytes),\"response_bytes\":\(totals.responseBytes)}"
        }
        let down = totals.values.reduce(0) { $0 + $1.responseBytes }
        return "{\"connections\":\(connections),\"cuts\":\(cutsDone),\"request_bytes\":\(requestBytes),"
            + "\"response_bytes\":\(down),\"kinds\":{\(kinds.joined(separator: ","))}}"
    }

    var recordsJSON: String {
        let rows = records.map { record in
            let upstream = record.upstreamStatus.map { "\($0)" } ?? "null"
            let client = record.clientStatus.map { "\($0)" } ?? "null"
            return "{\"method\":\(quoted(record.method)),\"path\":\(quoted(record.path)),"
                + "\"query\":\(quoted(record.query)),\"kind\":\(quoted(record.kind.description)),"
                + "\"request_bytes\":\(record.requestBytes),\"response_bytes\":\(record.responseBytes),"
                + "\"upstream_status\":\(upstream),\"client_status\":\(client)}"
        }
        return "[\(rows.joined(separator: ","))]"
    }

    private func quoted(_ text: String) -> String {
        let escaped = text.unicodeScalars.map { scalar in
            switch scalar {
            case "\"", "\\": "\\\(scalar)"
            case _ where scalar.value < 0x20: " "
            default: String(scalar)
            }
        }
        return "\"\(escaped.joined())\""
    }
}
