// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control
internal import Glibc
internal import Platform

/// `moorage flush`: waits until everything pending is remote.
enum FlushCommand {
    static let definition = CommandDefinition(
        name: "flush",
        operands: "[PATH|REMOTE]",
        operandCount: 0...1,
        flags: [
            FlagDefinition("json", nil, "print one JSON document at the end"),
            FlagDefinition("timeout", "SECONDS", "give up waiting after this time (uploads go on)"),
        ],
        summary: "wait until everything pending is remote",
        details: """
            What is pending is sent at once: networks that cost, batteries and power profiles do not hold it then, and
            what they would have held is told on standard error. See moorage policy show.

            --json tells whether everything is remote, whether the time was up, and the uploads that are left, as
            moorage uploads list --json does.
            """
    ) { arguments throws(CommandFailure) in
        let (timeout, json) = (try arguments.seconds("timeout"), arguments.has("json"))
        let instance = try Instance.current()
        guard let word = arguments.operands.first else {
            return try run(instance, [UploadSelection()], timeout: timeout, json: json)
        }
        let selections = try SelectionResolver(instance).everything(under: word)
        guard !selections.isEmpty else {
            throw CommandFailure("\(word): not in a volume that was mounted here; see moorage status")
        }
        return try run(instance, selections, timeout: timeout, json: json)
    }

    /// Flushes, showing progress on a terminal, or telling the outcome as a document; 0 when all is remote.
    static func run(
        _ instance: Instance,
        _ selections: [UploadSelection],
        timeout: Double?,
        json: Bool = false
    ) throws(CommandFailure) -> Int32 {
        let end = timeout.map { monotonicSeconds() + $0 }
        let display = FlushDisplay(isWanted: !json)
        var left: [UploadReport] = []
        let notice = OverrideNotice()
        for selection in selections { left += try settle(instance, selection, end, display, notice) }
        display.finish(isDone: left.isEmpty)
        let timedOut = !left.isEmpty && end.map { monotonicSeconds() >= $0 - 0.05 } ?? false
        if json {
            Console.bytes(try document(FlushReport(remote: left.isEmpty, timedOut: timedOut, left: left)))
        }
        return try report(left, timedOut: timedOut)
    }

    /// Flushes one selection, whatever happens to the flusher; returns what is left.
    private static func settle(
        _ instance: Instance,
        _ selection: UploadSelection,
        _ end: Double?,
        _ display: FlushDisplay,
        _ notice: OverrideNotice
    ) throws(CommandFailure) -> [UploadReport] {
        var failures = 0
        while true {
            let remaining = end.map { max(0, $0 - monotonicSeconds()) }
            do throws(ControlError) {
                return try flushOnce(instance, selection, timeout: remaining) {
                    failures = 0
                    notice.print($0.overridden ?? [])
                    display.show($0)
                }
            } catch {
                // A flusher that was killed is started again; what it had sent stays sent.
                failures += 1
                guard case .closed = error, failures < 5, remaining.map({ $0 > 0 }) ?? true else {
                    display.finish()
                    throw CommandFailure(flusher: error)
                }
                usleep(200_000)
            }
        }
    }

    private static func flushOnce(
        _ instance: Instance,
        _ selection: UploadSelection,
        timeout: Double?,
        onProgress: (FlushProgress) -> Void
    ) throws(ControlError) -> [UploadReport] {
        let client = try instance.launcher.connect(program: "flush")
        if let credentials = HandedCredentials.ofEnvironment() {
            _ = try client.call(.credentials(volume: nil, credentials: credentials))
        }
        let request = ControlRequest.flush(selection: selection, timeout: timeout)
        guard case .flushed(let left) = try client.stream(request, timeout: nil, onProgress: onProgress) else {
            throw .malformed("no end of the flush")
        }
        return left
    }

    private static func report(_ left: [UploadReport], timedOut: Bool) throws(CommandFailure) -> Int32 {
        if left.isEmpty { return 0 }
        for upload in left.prefix(20) { Console.note(UploadText.problem(upload)) }
        if left.count > 20 { Console.note("and \(left.count - 20) more; see moorage uploads") }
        let reason = timedOut ? "time is up" : "not everything could be sent"
        throw CommandFailure("flush: \(reason): \(counted(left.count, "file")) left; see moorage uploads")
    }
}

/// The document of `flush --json`.
private struct FlushReport: Encodable {
    /// Whether everything that was pending is remote.
    var remote: Bool
    /// Whether the wait ended before that as its time was up.
    var timedOut: Bool
    var left: [UploadReport]

    private enum CodingKeys: String, CodingKey {
        case remote
        case timedOut = "timed_out"
        case left
    }
}

/// Shows a flush's progress: a bar on a terminal, nothing otherwise.
final class FlushDisplay {
    private var line = ProgressLine()
    private var shown: FlushProgress?
    private var lastTime = 0.0
    private let isShown: Bool

    /// `isWanted`: standard output is not for something else.
    init(isWanted: Bool = true) {
        isShown = isWanted && Console.isTerminal
    }

    func show(_ progress: FlushProgress) {
        guard isShown else { return }
        let now = monotonicSeconds()
        let isDone = progress.filesDone >= progress.filesTotal
        guard isDone || now - lastTime > 0.1 else { return }
        lastTime = now
        draw(progress, now)
    }

    private func draw(_ progress: FlushProgress, _ now: Double) {
        let text = line.render(
            filesDone: progress.filesDone,
            filesTotal: progress.filesTotal,
            bytesDone: progress.bytesDone,
            bytesTotal: progress.bytesTotal,
            note: progress.isOffline ? "offline, waiting" : nil,
            time: now,
            width: Console.width
        )
        Console.text("\r\(text)\u{1B}[K")
        shown = progress
    }

    /// Ends the line; what is done is told as done, as the last report came before the end.
    func finish(isDone: Bool = false) {
        guard var last = shown else { return }
        if isDone {
            last.filesDone = last.filesTotal
            last.bytesDone = last.bytesTotal
            last.isOffline = false
            draw(last, monotonicSeconds())
        }
        Console.text("\n")
        shown = nil
    }
}
