// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Metrics in the text exposition format 0.0.4 of Prometheus.
struct MetricsText {
    enum Kind: String {
        case counter
        case gauge
    }

    /// The Content-Type of the format.
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private(set) var text = ""

    /// Adds a metric with a value for each set of labels; one without values is left out.
    ///
    /// Names end as the format asks for: those of counters with `_total`.
    mutating func add(
        _ name: String,
        _ kind: Kind,
        _ help: String,
        _ samples: [(labels: [(String, String)], value: Double)]
    ) {
        guard !samples.isEmpty else { return }
        text += "# HELP moorage_\(name) \(Self.escaped(help, quotes: false))\n# TYPE moorage_\(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.map { "\($0.0)=\"\(Self.escaped($0.1, quotes: true))\"" }.joined(separator: ",")
            text += "moorage_\(name)\(labels.isEmpty ? "" : "{\(labels)}") \(Self.number(sample.value))\n"
        }
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.append(character)
            }
        }
    }

    private static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
    }
}
