// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// The text of `uploads --tree`.
enum TreeText {
    static func lines(_ trees: [TreeReport]) -> [String] {
        guard trees.contains(where: { $0.files > $0.filesDone || $0.isPaused || !$0.children.isEmpty }) else {
            return ["nothing is pending"]
        }
        return columns(trees.flatMap { rows($0, depth: 0) }).map { line in
            String(line.reversed().drop { $0 == " " }.reversed())
        }
    }

    private static func rows(_ node: TreeReport, depth: Int) -> [[String]] {
        let indent = String(repeating: "  ", count: depth)
        let title = node.kind == .part ? "part \(node.name)" : Console.oneLine(node.name)
        var notes: [String] = []
        if node.isPaused { notes.append("paused here") }
        if let state = node.state, state != .uploading, !(node.isPaused && state == .paused) {
            notes.append(state.rawValue)
        }
        if node.restarts > 0 { notes.append("restarted \(node.restarts)×") }
        let isFolder = node.kind == .volume || node.kind == .folder
        var rows = [
            [
                indent + title + (node.kind == .folder ? "/" : ""), percent(node),
                node.size > 0 ? "\(humanBytes(node.sent)) of \(humanBytes(node.size))" : "",
                isFolder ? "\(node.filesDone)/\(node.files) files" : "",
                node.bytesPerSecond > 0 ? "\(humanBytes(node.bytesPerSecond))/s" : "", notes.joined(separator: ", "),
            ]
        ]
        for child in node.children { rows += self.rows(child, depth: depth + 1) }
        if node.more > 0 { rows.append([indent + "  … and \(node.more) more", "", "", "", "", ""]) }
        return rows
    }

    private static func percent(_ node: TreeReport) -> String {
        let isDone = node.files > 0 && node.files == node.filesDone
        let fraction = node.size > 0 ? Double(node.sent) / Double(node.size) : isDone ? 1 : 0
        let text = "\(Int((min(1, fraction) * 100).rounded(.down)))%"
        return String(repeating: " ", count: max(0, 4 - text.count)) + text
    }
}
