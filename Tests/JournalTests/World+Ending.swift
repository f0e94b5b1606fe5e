// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Platform
import TestSupport

extension World {
    /// Kills mount and flusher, and recovers.
    func crash() throws {
        note("crash")
        for node in puttingMarkers where random.chance(50) {
            // The request was on its way.
            markers[node.path] = node.attributes
        }
        puttingMarkers = []
        let before = try setAside()
        journal = try Journal.recovering(directory: scratch.path, boot: "one").journal
        let wasOpen = open
        // Of a new file without a row alone nobody knows what it was.
        let more = try setAside() - before
        guard more <= (newest.map { wasOpen[$0] != nil } ?? false ? 1 : 0) else {
            throw Failure("\(more) files were set aside by a kill")
        }
        if more > 0 { note("set aside") }
        open = [:]
        for (path, file) in wasOpen.sorted(by: { $0.key < $1.key }) { try acceptRecovered(path, file) }
    }

    private func setAside() throws -> Int { try Files.names(in: "\(scratch.path)/quarantine").count }

    /// An open file came back with what was acknowledged, or with more of what was written, never with anything else.
    private func acceptRecovered(_ path: ObjectKey, _ file: OpenFile) throws {
        let entry = try view(path)
        if entry == nil, path == newest, file.acknowledged == nil {
            note("unmade \(path)")
            model[path] = nil
            return
        }
        guard case .file(let content, _) = entry else { throw Failure("\(path): lost by the crash") }
        let acknowledged = file.acknowledged ?? []
        let isNew = file.acknowledged == nil
        guard isNew ? content == file.content : [acknowledged.count, file.content.count].contains(content.count) else {
            throw Failure("\(path): \(content.count) bytes after the crash")
        }
        for (offset, byte) in content.enumerated() {
            let old = offset < acknowledged.count ? acknowledged[offset] : 0
            let new = offset < file.content.count ? file.content[offset] : 0
            guard byte == old || byte == new else { throw Failure("\(path): a strange byte at \(offset)") }
        }
        setModel(path, entry)
    }

    /// Closes everything and lets the flusher work until the remote is what the user sees.
    func finish() throws {
        for path in open.keys.sorted() { try seal(path) }
        try check()
        var steps = 0
        while try !isSettled() {
            try flusherStep()
            steps += 1
            guard steps < 20_000 else { throw Failure("not settled: \(try describe())") }
        }
        try check()
        let staging = try Files.names(in: "\(scratch.path)/staging")
        guard staging.isEmpty else { throw Failure("staging files are left: \(staging)") }
        let end = try journal.unsettledNodes(through: .max)
        guard end.isEmpty else { throw Failure("rows are left") }
        try checkRemote()
    }

    private func isSettled() throws -> Bool {
        guard try journal.counts().total == 0, puttingMarkers.isEmpty, try journal.transfers().isEmpty else {
            return false
        }
        return try Files.names(in: "\(scratch.path)/staging").isEmpty
    }

    func describe() throws -> String {
        var text = ""
        for node in try journal.pendingNodes() {
            text +=
                "\n\(node.id) \(node.path) \(node.kind) base \(node.base)\(node.hasRemoteDirectory ? " folder" : "")"
            if let generation = node.generation {
                text += " \(generation.id) \(generation.content.extents.ranges) over \(generation.underlay)"
            }
            text += " blocked by \(try journal.blockers(of: node))"
        }
        for (transfer, fate) in try journal.transfers() {
            text += "\n\(transfer.id) of \(transfer.node) to \(transfer.key) \(transfer.phase) \(fate)"
        }
        return text
    }
}
