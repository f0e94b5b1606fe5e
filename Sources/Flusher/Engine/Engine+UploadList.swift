// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Database
internal import Journal
internal import Platform

/// The list of uploads: of a long queue a part at a time, as each row takes memory.
extension Engine {
    /// How many uploads are told of at most to who asks for no pages.
    static let reportLimit = 20_000
    /// How many uploads a page tells of.
    static let pageLimit = 1000
    /// How many bytes the paths of a page may have: a frame holds them even where each byte takes six.
    static let pageBytes = 1 << 20

    /// The uploads of a selection, in the order of the queue, the first ones if they are very many.
    func uploadReports(_ selection: UploadSelection) -> [UploadReport] {
        var left = Self.reportLimit
        let rows = sessions(selection).map { session in
            let ids = ((try? selection.places(in: session, limit: left)) ?? []).map(\.id)
            left -= ids.count
            return (session, ids)
        }
        let isDetailed = rows.reduce(0) { $0 + $1.1.count } <= Self.detailLimit
        return rows.flatMap { session, ids in reports(ids, session, isDetailed: isDetailed) }
    }

    /// A part at a time: the rows themselves take much more memory than what is told of them.
    private func reports(_ ids: [NodeID], _ session: VolumeSession, isDetailed: Bool) -> [UploadReport] {
        stride(from: 0, to: ids.count, by: 1000).flatMap { start in
            let nodes = (try? session.journal.nodes(ids[start..<min(start + 1000, ids.count)])) ?? []
            return nodes.map { listed($0, session, isDetailed: isDetailed) }
        }
    }

    private func listed(_ node: JournalNode, _ session: VolumeSession, isDetailed: Bool) -> UploadReport {
        var report = report(node, session)
        if isDetailed { report.details = details(node, session, report) }
        return report
    }

    /// A page of the uploads of a selection, in the order of the queue, volume by volume.
    func uploads(_ selection: UploadSelection, _ page: UploadPage) -> ControlReply {
        var last: UploadCursor?
        if let after = page.after {
            guard let cursor = UploadCursor(after) else { return .failed(reason: "no place in the queue: \(after)") }
            last = cursor
        }
        let places: [(VolumeSession, QueuePlace)]
        do throws(JournalError) {
            places = try self.places(selection, after: last, limit: Self.pageLimit + 1)
        } catch {
            return .failed(reason: error.description)
        }
        let isDetailed = last == nil && places.count <= Self.detailLimit
        var (reports, bytes, isLast): ([UploadReport], Int, Bool) = ([], 0, true)
        for (index, (session, place)) in places.enumerated() {
            guard index < Self.pageLimit, bytes < Self.pageBytes else {
                isLast = false
                break
            }
            last = UploadCursor(volume: session.id, place: place)
            // It may be remote meanwhile.
            guard let node = (try? session.journal.nodes([place.id]))?.first else { continue }
            bytes += node.path.bytes.count
            reports.append(listed(node, session, isDetailed: isDetailed))
        }
        return .uploads(uploads: reports, next: isLast ? nil : last?.text)
    }

    private func places(
        _ selection: UploadSelection,
        after last: UploadCursor?,
        limit: Int
    ) throws(JournalError) -> [(VolumeSession, QueuePlace)] {
        var found: [(VolumeSession, QueuePlace)] = []
        for session in sessions(selection) where session.id >= last?.volume ?? "" && found.count < limit {
            let place = session.id == last?.volume ? last?.place : nil
            let places = try selection.places(in: session, after: place, limit: limit - found.count)
            found += places.map { (session, $0) }
        }
        return found
    }
}

/// How far a list of uploads was told.
struct UploadCursor: Hashable {
    let volume: String
    let place: QueuePlace

    init(volume: String, place: QueuePlace) {
        self.volume = volume
        self.place = place
    }

    /// What ``text`` of another one tells; nil where it tells nothing.
    init?(_ text: String) {
        let words = text.split(separator: ":", omittingEmptySubsequences: false)
        guard words.count == 2, let place = QueuePlace(words[1]) else { return nil }
        self.init(volume: String(words[0]), place: place)
    }

    var text: String { "\(volume):\(place.text)" }
}
