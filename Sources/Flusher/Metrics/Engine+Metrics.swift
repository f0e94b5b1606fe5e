// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Platform
internal import Policy

extension Engine {
    /// All metrics as text; labels are volumes' ids and reasons, never names of files, buckets or hosts.
    func metrics() -> String {
        let report = statusReport()
        var text = MetricsText()
        addFlusher(to: &text)
        addCounters(report, to: &text)
        addQueue(report, to: &text)
        addStorage(report, to: &text)
        return text.text
    }

    private func addFlusher(to text: inout MetricsText) {
        text.add("build_info", .gauge, "The version that runs.", [([("version", options.program)], 1)])
        text.add("requests_total", .counter, "Requests to remotes, those that failed too.", [([], Double(gate.total))])
        let running = state.inspect { $0.jobs.count }
        text.add("workers_busy", .gauge, "Changes that are worked on now.", [([], Double(running))])
        let memory = ResidentMemory.bytes().map { [(labels: [(String, String)](), value: Double($0))] } ?? []
        text.add("resident_memory_bytes", .gauge, "Memory of the flusher.", memory)
    }

    private func addCounters(_ report: StatusReport, to text: inout MetricsText) {
        let volumes = report.volumes.map { ($0.id, board.volume($0.id)) }
        func add(_ name: String, _ help: String, _ value: (VolumeActivity) -> Int64) {
            text.add(name, .counter, help, volumes.map { ([("volume", $0.0)], Double(value($0.1))) })
        }
        add("sent_bytes_total", "Bytes of content handed to the network, what was sent again too.") { $0.total }
        add("finished_total", "Changes that became remote.") { Int64($0.finished) }
        add("failed_attempts_total", "Attempts that failed and are followed by a retry, or by a person.") {
            Int64($0.failures)
        }
        add("attention_total", "Uploads that came to need a person.") { Int64($0.attention) }
        add("conflicts_total", "Local changes that met a remote one.") { Int64($0.conflicts) }
    }

    private func addQueue(_ report: StatusReport, to text: inout MetricsText) {
        func add(_ name: String, _ help: String, _ value: (VolumeReport) -> Double) {
            text.add(name, .gauge, help, report.volumes.map { ([("volume", $0.id)], value($0)) })
        }
        add("pending_changes", "Changes that are not remote yet.") { Double($0.pending.files) }
        add("pending_bytes", "Their content.") { Double($0.pending.bytes) }
        add("bytes_left", "What of it is still to be sent.") { Double($0.activity?.bytesLeft ?? 0) }
        add("ready_uploads", "Uploads that wait for a free worker only.") { Double($0.activity?.ready ?? 0) }
        add("running_uploads", "Uploads that send content now.") { Double($0.uploading.files) }
        add("attention_uploads", "Uploads that need a person now.") { Double($0.attention) }
        add("oldest_wait_seconds", "How long the change waits that waits longest.") {
            $0.activity?.oldestWait?.seconds ?? 0
        }
        add("send_rate_bytes", "Bytes a second over the last ten seconds.") { Double($0.activity?.bytesPerSecond ?? 0) }
        text.add(
            "waiting_uploads",
            .gauge,
            "Uploads that wait, by reason; one with several counts in each.",
            report.volumes.flatMap { volume in
                let counts = (volume.activity?.waiting ?? []).map { ($0.waiting.reason, Double($0.files)) }
                return Self.reasons(counts, volume.id)
            }
        )
        let gates = state.inspect { $0.volumes.mapValues(\.gateReasons) }
        text.add(
            "gate_closed",
            .gauge,
            "1 while this reason holds all uploads of a volume that nobody waits for.",
            gates.sorted { $0.key < $1.key }.flatMap { id, reasons in
                Self.reasons(reasons.map { ($0.reason.rawValue, 1) }, id)
            }
        )
    }

    /// A value for every reason there is, 0 for those that do not apply: a series that comes and goes is no use.
    private static func reasons(
        _ values: [(String, Double)],
        _ volume: String
    ) -> [(labels: [(String, String)], value: Double)] {
        let known = Dictionary(values) { $0 + $1 }
        return WaitingReason.allCases.map { ([("volume", volume), ("reason", $0.rawValue)], known[$0.rawValue] ?? 0) }
    }

    private func addStorage(_ report: StatusReport, to text: inout MetricsText) {
        func add(_ name: String, _ help: String, _ value: (VolumeReport) -> Double) {
            text.add(name, .gauge, help, report.volumes.map { ([("volume", $0.id)], value($0)) })
        }
        add("staging_bytes", "What unsent content takes on the disk.") { Double($0.staging?.bytes ?? 0) }
        add("cache_bytes", "What the cache takes on the disk.") { Double($0.cache.bytes) }
        add("cache_limit_bytes", "What it may take.") { Double($0.cache.limit) }
        add("cache_damaged_blocks", "Cached blocks found damaged since the last mount.") {
            Double($0.cache.damagedBlocks)
        }
        add("mounted", "Whether the volume is mounted.") { $0.mountpoint == nil ? 0 : 1 }
    }
}
