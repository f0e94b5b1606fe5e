// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// Uploads as lines for people.
enum UploadText {
    /// One line about an upload that is not remote yet: what and why.
    static func problem(_ upload: UploadReport) -> String {
        var text = "\(upload.path): \(upload.state.rawValue)"
        if let error = upload.error { text += ": \(error)" }
        let reasons = reasons(upload)
        if !reasons.isEmpty { text += " (\(reasons))" }
        return text
    }

    /// Why an upload waits, in a few words.
    static func reasons(_ upload: UploadReport) -> String {
        upload.waiting.map { waiting in
            var text = waiting.reason
            if let until = waiting.until { text += " until \(until)" }
            if let detail = waiting.detail { text += ": \(detail)" }
            return text
        }.joined(separator: ", ")
    }

    /// The table of `uploads list`.
    static func table(_ uploads: [UploadReport]) -> [String] {
        guard !uploads.isEmpty else { return ["nothing is pending"] }
        let header = ["ID", "STATE", "SENT", "SIZE", "KIND", "PATH", ""]
        return columns([header] + uploads.map { row($0) })
    }

    /// The lines about conflicts below that table.
    static func conflicts(_ conflicts: [ConflictReport]) -> [String] {
        guard !conflicts.isEmpty else { return [] }
        let lines = conflicts.map { "  \(Console.oneLine($0.path)): ours is \(Console.oneLine($0.copy))" }
        return ["", "changed here and at the remote, both are kept; see moorage uploads resolve:"] + lines
    }

    private static func row(_ upload: UploadReport) -> [String] {
        let note = upload.error ?? reasons(upload)
        return [
            upload.id, upload.state.rawValue, upload.kind == .put ? humanBytes(upload.sent) : "-",
            upload.kind == .put ? humanBytes(upload.size) : "-", upload.kind.rawValue, Console.oneLine(upload.path),
            Console.oneLine(note),
        ]
    }

    private static func explanation(_ details: UploadDetails, _ upload: UploadReport) -> [String] {
        var lines = ["  \(humanBytes(details.acknowledged)) of it acknowledged by the remote"]
        if details.bytesPerSecond > 0 {
            let left = details.secondsLeft.map { ", \(humanSeconds($0)) left" } ?? ""
            lines.append("  \(humanBytes(details.bytesPerSecond))/s\(left)")
        }
        if details.restarts > 0 { lines.append("  began anew \(details.restarts)×") }
        let rank = details.rank.map { $0 == 0 ? ", the next in the queue" : ", \($0) before it in the queue" } ?? ""
        lines.append("  class \(details.transferClass)\(rank)")
        let settings = (details.settings ?? [:]).sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        if !settings.isEmpty { lines.append("  set for it: \(Console.oneLine(settings.joined(separator: ", ")))") }
        let holds = [
            (details.holds.user, "by a person"), (details.holds.policy, "by the machine's conditions or rules"),
        ]
        let told = holds.filter { $0.0 > 0 }.map { "\($0.0)× \($0.1)" }
        if !told.isEmpty { lines.append("  held \(told.joined(separator: ", "))") }
        return lines
    }

    /// The text of `uploads why`.
    static func explanation(_ upload: UploadReport) -> [String] {
        var lines = ["\(Console.oneLine(upload.path)): \(upload.state.rawValue)"]
        lines.append(
            "  \(humanBytes(upload.sent)) of \(humanBytes(upload.size)) sent by \(upload.uploadProtocol ?? "no protocol yet")"
        )
        if let details = upload.details { lines += explanation(details, upload) }
        if let copied = upload.copied, copied > 0 {
            lines.append("  \(humanBytes(copied)) of it copied by the server from what it has")
        }
        for waiting in upload.waiting {
            var text = "  waiting since \(waiting.since): \(waiting.reason)"
            if let until = waiting.until { text += ", until \(until)" }
            if let detail = waiting.detail { text += ": \(detail)" }
            lines.append(Console.oneLine(text))
            if let hint = waiting.hint { lines.append("    \(hint)") }
        }
        if upload.attempts > 0 {
            lines.append("  \(counted(upload.attempts, "attempt")), next at \(upload.nextAttempt ?? "once")")
        }
        if let error = upload.error { lines.append("  last error: \(Console.oneLine(error))") }
        if upload.waiting.isEmpty, upload.error == nil { lines.append("  it does not wait") }
        return lines
    }
}
