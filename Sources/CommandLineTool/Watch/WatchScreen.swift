// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control

/// What `status --watch` shows, as lines, purely by a report.
struct WatchScreen {
    let report: StatusReport
    /// What counts as now; nil: times are told as they are, for a text that is read later.
    let now: Timestamp?

    /// The lines for a terminal of this size: what does not fit is counted in the last one.
    func lines(width: Int, height: Int) -> [StyledText] {
        let all = lines(width: width)
        guard all.count > height, height > 1 else { return Array(all.prefix(max(1, height))) }
        let hidden = all.count - height + 1
        return all.prefix(height - 1) + [StyledText("… \(counted(hidden, "line")) more", .dim)]
    }

    /// All lines.
    func lines(width: Int) -> [StyledText] {
        var result = [header]
        for volume in report.volumes { result += [StyledText()] + lines(of: volume, width) }
        if report.volumes.isEmpty { result += [StyledText(), StyledText("no volume was mounted here yet")] }
        return result
    }

    private var header: StyledText {
        var line = StyledText()
        if report.flusher.running {
            line.add("flusher running", .green)
            line.add(", pid \(report.flusher.pid ?? 0)")
        } else {
            line.add("flusher not running", .yellow)
        }
        let rate = report.volumes.reduce(0) { $0 + ($1.activity?.bytesPerSecond ?? 0) }
        if rate > 0 { line.add(" · \(humanBytes(rate))/s", .bold) }
        return line
    }

    private func lines(of volume: VolumeReport, _ width: Int) -> [StyledText] {
        let title = StyledText(volume.remote, .bold)
        var lines = [title.adding(volume.mountpoint.map { "  on \($0)" } ?? "  not mounted")]
        lines.append(StyledText("  ").adding(summary(volume)))
        for problem in [volume.error, volume.cache.warning] {
            if let problem { lines.append(StyledText("  ").adding(problem, .red)) }
        }
        let needs = [
            (volume.attention, "\(volume.attention) need attention: moorage uploads"),
            (volume.conflicts, "\(counted(volume.conflicts, "conflict")): moorage uploads resolve"),
        ]
        for (count, text) in needs where count > 0 { lines.append(StyledText("  ").adding(text, .red)) }
        guard let activity = volume.activity, volume.pending.files > 0 else { return lines }
        lines += running(activity, width)
        lines += waiting(activity)
        lines += next(activity, width)
        return lines
    }

    private func summary(_ volume: VolumeReport) -> String {
        var parts = volume.connection == "unknown" ? [] : [volume.connection]
        guard volume.pending.files > 0 else { return (parts + ["nothing pending"]).joined(separator: " · ") }
        parts.append("\(counted(volume.pending.files, "file")) pending")
        let activity = volume.activity
        parts.append("\(humanBytes(activity?.bytesLeft ?? volume.pending.bytes)) left")
        if let rate = activity?.bytesPerSecond, rate > 0 { parts.append("\(humanBytes(rate))/s") }
        if let left = activity?.secondsLeft { parts.append("done in \(humanSeconds(left))") }
        if let wait = activity?.oldestWait {
            let age = now.flatMap { seconds(from: wait.since, to: $0) }
            if let age, age >= 60 { parts.append("oldest waits for \(humanSeconds(age))") }
            if now == nil { parts.append("oldest waits since \(wait.since)") }
        }
        return parts.joined(separator: " · ")
    }

    // MARK: what runs

    private static let barWidth = 20
    /// Below this width there is room for a name and how far it is, and nothing else.
    private static let narrow = 60

    private func running(_ activity: ActivityReport, _ width: Int) -> [StyledText] {
        guard !activity.transfers.isEmpty else { return [] }
        let tails = columns(activity.transfers.map { numbers($0, width) })
        let fixed = 4 + (width < Self.narrow ? 0 : Self.barWidth + 3) + 1 + (tails.map(\.count).max() ?? 0)
        let room = max(12, min(40, width - fixed))
        let lines = zip(activity.transfers, tails).map { transfer, tail in
            line(of: transfer, tail, room: room, hasBar: width >= Self.narrow)
        }
        return [StyledText("  sending", .dim)] + lines
    }

    /// How far a transfer is, a cell a number.
    private func numbers(_ transfer: TransferReport, _ width: Int) -> [String] {
        let percent = padded("\(Int((fraction(transfer) * 100).rounded(.down)))%", 4)
        let left = transfer.secondsLeft.map { $0 >= 1 ? "\(humanSeconds($0)) left" : "" } ?? ""
        guard width >= Self.narrow else { return [percent, left] }
        let rate = transfer.bytesPerSecond > 0 ? "\(humanBytes(transfer.bytesPerSecond))/s" : ""
        var cells = [percent, "\(humanBytes(transfer.sent)) of \(humanBytes(transfer.size))", rate, left]
        if transfer.restarts > 0 { cells.append("restarted \(transfer.restarts)×") }
        return cells
    }

    private func fraction(_ transfer: TransferReport) -> Double {
        transfer.size > 0 ? min(1, Double(transfer.sent) / Double(transfer.size)) : 1
    }

    private func line(of transfer: TransferReport, _ tail: String, room: Int, hasBar: Bool) -> StyledText {
        let name = DisplayWidth.cutFront(Console.oneLine(transfer.path), to: room)
        var line = StyledText("    \(DisplayWidth.fit(name, to: room)) ")
        if hasBar {
            let filled = Int(fraction(transfer) * Double(Self.barWidth))
            line.add("[")
            line.add(String(repeating: "#", count: filled), .green)
            line.add(String(repeating: ".", count: Self.barWidth - filled), .dim)
            line.add("] ")
        }
        line.add(tail)
        return line
    }

    // MARK: what waits

    private func waiting(_ activity: ActivityReport) -> [StyledText] {
        var lines: [StyledText] = []
        if activity.ready > 0 {
            lines.append(StyledText("    \(counted(activity.ready, "file"))").adding(", their turn comes", .dim))
        }
        for group in activity.waiting {
            var line = StyledText("    \(counted(group.files, "file"))  ")
            line.add(group.waiting.reason, .yellow)
            line.add(times(group.waiting))
            if let detail = group.waiting.detail { line.add(": \(detail)", .dim) }
            lines.append(line)
        }
        return lines.isEmpty ? [] : [StyledText("  waiting", .dim)] + lines
    }

    /// Since when, and until when if that is known.
    private func times(_ waiting: UploadReport.Waiting) -> String {
        guard let now else { return " since \(waiting.since)" + (waiting.until.map { ", until \($0)" } ?? "") }
        var text = ""
        if let age = seconds(from: waiting.since, to: now), age >= 1 { text += " for \(humanSeconds(age))" }
        if let left = waiting.until.flatMap({ seconds(from: $0, to: now) }) {
            text += left <= -1 ? ", \(humanSeconds(-left)) more" : ", ends now"
        }
        return text
    }

    private func seconds(from time: String, to end: Timestamp) -> Double? {
        Timestamp(reported: time).map { Double(end.nanoseconds - $0.nanoseconds) / 1e9 }
    }

    private func next(_ activity: ActivityReport, _ width: Int) -> [StyledText] {
        guard !activity.next.isEmpty else { return [] }
        let room = max(12, min(40, width - 30))
        let lines = activity.next.map { upload in
            let path = DisplayWidth.cutFront(Console.oneLine(upload.path), to: room)
            let reasons = upload.waiting.map(\.reason).joined(separator: ", ")
            var line = StyledText("    \(DisplayWidth.fit(path, to: room))")
            let what = upload.kind == .put ? humanBytes(upload.size) : upload.kind.rawValue
            line.add("  \(DisplayWidth.fit(what, to: 9))")
            line.add(reasons, .yellow)
            return line
        }
        return [StyledText("  next", .dim)] + lines
    }

    private func padded(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(0, width - text.count)) + text
    }
}

extension Timestamp {
    /// A time as reports tell it, such as `2026-11-20T06:00:00.000Z`; nil for any other text.
    fileprivate init?(reported text: String) {
        let parts = text.split(whereSeparator: { "-T:.Z".contains($0) }).map { Int($0) ?? -1 }
        guard text.hasSuffix("Z"), (6...7).contains(parts.count), !parts.contains(where: { $0 < 0 }) else { return nil }
        let civil = Civil(
            year: parts[0],
            month: parts[1],
            day: parts[2],
            hour: parts[3],
            minute: parts[4],
            second: parts[5]
        )
        self = Timestamp(civil).advanced(bySeconds: parts.count == 7 ? Double(parts[6]) / 1000 : 0)
    }
}
