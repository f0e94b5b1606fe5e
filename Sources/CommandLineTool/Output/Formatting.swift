// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Bytes for people: `0 B`, `1.5 KiB`, `12 MiB`.
func humanBytes(_ bytes: Int64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    var value = Double(bytes)
    var unit = 0
    while value >= 1023.95, unit < units.count - 1 {
        value /= 1024
        unit += 1
    }
    if unit == 0 { return "\(bytes) B" }
    let tenths = Int64((value * 10).rounded())
    return tenths < 1000 && tenths % 10 != 0
        ? "\(tenths / 10).\(tenths % 10) \(units[unit])" : "\(Int64(value.rounded())) \(units[unit])"
}

/// Seconds for people: `45 s`, `3 min`, `2 h 5 min`.
func humanSeconds(_ seconds: Double) -> String {
    let whole = Int64(seconds.rounded(.up))
    if whole < 90 { return "\(whole) s" }
    if whole < 5400 { return "\((whole + 30) / 60) min" }
    return "\(whole / 3600) h \(whole % 3600 / 60) min"
}

/// `1 file`, `2 files`.
func counted(_ count: Int, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
}

/// How far something is, as one line of a terminal; a value, so that it can be tested.
struct ProgressLine {
    private var samples: [(time: Double, bytes: Int64)] = []

    /// The line for a state at `time` (monotonic seconds), at most `width` columns.
    mutating func render(
        filesDone: Int,
        filesTotal: Int,
        bytesDone: Int64,
        bytesTotal: Int64,
        note: String?,
        time: Double,
        width: Int
    ) -> String {
        let fraction = ProgressLine.fraction(filesDone, filesTotal, bytesDone, bytesTotal)
        var parts = ["\(padLeft("\(Int(fraction * 100))", 3))%"]
        parts.append("\(humanBytes(bytesDone)) of \(humanBytes(bytesTotal))")
        parts.append("\(filesDone)/\(filesTotal) files")
        if let note {
            parts.append(note)
        } else if let rate = rate(bytesDone, time), rate > 0 {
            parts.append("\(humanBytes(Int64(rate)))/s")
            parts.append("\(humanSeconds(Double(bytesTotal - bytesDone) / rate)) left")
        }
        let text = parts.joined(separator: "  ")
        let room = min(30, width - text.count - 4)
        guard room >= 8 else { return String(text.prefix(max(0, width - 1))) }
        let filled = Int(fraction * Double(room))
        return "[\(String(repeating: "#", count: filled))\(String(repeating: ".", count: room - filled))] \(text)"
    }

    private static func fraction(_ filesDone: Int, _ filesTotal: Int, _ bytesDone: Int64, _ bytesTotal: Int64) -> Double
    {
        if filesTotal > 0, filesDone >= filesTotal { return 1 }
        if bytesTotal > 0 { return min(0.99, max(0, Double(bytesDone) / Double(bytesTotal))) }
        return filesTotal > 0 ? Double(filesDone) / Double(filesTotal) : 1
    }

    /// Bytes a second over the last ten seconds, nil while unknown.
    private mutating func rate(_ bytes: Int64, _ time: Double) -> Double? {
        samples.append((time, bytes))
        samples.removeAll { $0.time < time - 10 }
        guard let first = samples.first, time - first.time > 0.5 else { return nil }
        return Double(bytes - first.bytes) / (time - first.time)
    }
}

private func padLeft(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
}

/// Columns of text, each as wide as its widest cell; the last one is not padded.
func columns(_ rows: [[String]]) -> [String] {
    guard let count = rows.map(\.count).max() else { return [] }
    let widths = (0..<count).map { column in rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0 }
    return rows.map { row in
        row.enumerated().map { index, cell in
            index == row.count - 1 ? cell : cell + String(repeating: " ", count: widths[index] - cell.count)
        }.joined(separator: "  ")
    }
}
