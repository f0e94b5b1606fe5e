// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc
internal import Platform

/// `moorage status`: volumes, what is pending, the flusher, and the facts it decides by.
enum StatusCommand {
    static let definition = CommandDefinition(
        name: "status",
        operands: "",
        operandCount: 0...0,
        flags: [
            FlagDefinition("json", nil, "print one JSON document"),
            FlagDefinition("watch", nil, "go on showing it until interrupted"),
        ],
        summary: "show volumes and what is pending",
        details: """
            With --watch a terminal shows what is sent, how fast, what waits, why and until when, and follows every change
            until Ctrl-C; NO_COLOR is respected. Where standard output is no terminal the whole text is printed again when
            something changed; with --json one document on one line each time.
            """
    ) { arguments throws(CommandFailure) in
        let instance = try Instance.current()
        if arguments.has("watch") { return try StatusWatch(instance, json: arguments.has("json")).run() }
        let report = try report(instance)
        if arguments.has("json") {
            Console.bytes(try document(report))
        } else {
            for line in text(report) { Console.line(line) }
        }
        return 0
    }

    /// What the flusher says, or what the journals say when none runs.
    static func report(_ instance: Instance) throws(CommandFailure) -> StatusReport {
        if var report = try reportOfFlusher(instance) {
            report.flusher.warning = instance.lingerWarning(flusher: report.flusher.pid)
            return withMountpoints(report, instance)
        }
        let reports = instance.volumes().map { JournalReader.report($0, instance.directories) }
        return StatusReport(flusher: FlusherReport(running: false, pid: nil), conditions: [:], volumes: reports)
    }

    /// What the flusher says; nil when none runs, or when the one that was asked ended before it answered.
    private static func reportOfFlusher(_ instance: Instance) throws(CommandFailure) -> StatusReport? {
        var failure = CommandFailure.unexpectedReply
        // One that is being killed may still take connections for a moment.
        // A service that is just being started takes connections before it answers.
        let end = monotonicSeconds() + 15
        for _ in 0..<20 where monotonicSeconds() < end {
            do throws(CommandFailure) {
                guard let client = try instance.connectIfRunning() else { return nil }
                guard case .status(let report) = try client.ask(.status) else { throw .unexpectedReply }
                return report
            } catch {
                failure = error
                usleep(50_000)
            }
        }
        throw failure
    }

    /// The mountpoint of a volume is where it is mounted now; nil when it is not.
    private static func withMountpoints(_ report: StatusReport, _ instance: Instance) -> StatusReport {
        var report = report
        for index in report.volumes.indices {
            guard let volume = instance.volumes().first(where: { $0.id == report.volumes[index].id }) else { continue }
            report.volumes[index].mountpoint = volume.currentMountpoint(instance.directories)
        }
        return report
    }

    static func text(_ report: StatusReport) -> [String] {
        var lines = report.volumes.flatMap { volume in
            ["\(volume.remote)\(volume.mountpoint.map { "  on \($0)" } ?? "  not mounted")", "  \(summary(volume))"]
                + [volume.error, volume.cache.warning].compactMap { $0.map { "  \(Console.oneLine($0))" } }
        }
        if report.volumes.isEmpty { lines.append("no volume was mounted here yet") }
        lines.append(report.flusher.running ? "flusher running, pid \(report.flusher.pid ?? 0)" : "flusher not running")
        lines += [report.flusher.warning].compactMap { $0.map { "  \($0)" } }
        return lines
    }

    private static func summary(_ volume: VolumeReport) -> String {
        var parts: [String] = volume.connection == "unknown" ? [] : [volume.connection]
        if volume.pending.files == 0 {
            parts.append("nothing pending")
        } else {
            parts.append("\(counted(volume.pending.files, "file")) pending, \(humanBytes(volume.pending.bytes))")
        }
        if volume.uploading.files > 0 {
            let done = humanBytes(volume.uploading.bytesDone)
            parts.append("uploading \(volume.uploading.files): \(done) of \(humanBytes(volume.uploading.bytesTotal))")
        }
        if let rate = volume.activity?.bytesPerSecond, rate > 0 { parts.append("\(humanBytes(rate))/s") }
        if let left = volume.activity?.secondsLeft { parts.append("done in \(humanSeconds(left))") }
        if let wait = volume.activity?.oldestWait, wait.seconds >= 600 {
            parts.append("oldest waits for \(humanSeconds(wait.seconds))")
        }
        if let holds = volume.holds, !holds.isEmpty, volume.pending.files > 0 {
            parts.append("held: \(holds.map(\.reason).joined(separator: ", "))")
        }
        if volume.attention > 0 { parts.append("\(volume.attention) need attention, see moorage uploads") }
        if volume.conflicts > 0 { parts.append(counted(volume.conflicts, "conflict")) }
        parts.append("cache \(humanBytes(volume.cache.bytes)) of \(humanBytes(volume.cache.limit))")
        let damaged = volume.cache.damagedBlocks
        if damaged > 0 { parts.append("\(counted(damaged, "damaged block")) fetched again") }
        return parts.joined(separator: " · ")
    }
}

extension VolumeDescription {
    /// Where the volume is mounted now: its lock is held and the kernel knows the mount.
    func currentMountpoint(_ directories: Directories) -> String? {
        guard let mountpoint, FileLock.holder(of: directories.places(of: self).mountLock).isHeld else { return nil }
        return MountTable.isMoorage(at: mountpoint) ? mountpoint : nil
    }
}
