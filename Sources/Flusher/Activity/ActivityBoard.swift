// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Platform
internal import Policy

/// What is known of the uploads' course besides what the journal keeps: rates, marks, counts.
///
/// Fed by the engine's looks at what runs and by the ends of attempts; read by reports. In memory only.
final class ActivityBoard: Sendable {
    /// What one running upload shows.
    struct Running: Sendable {
        var row: RowID
        var path: String
        var look: UploadMark.Look
        /// All bytes handed to the network for it in this attempt, those that are sent again too.
        var transferred: Int64
    }

    /// What one look has to tell.
    struct News: Sendable {
        var running: Running
        var news: UploadMark.News?
        var sent: Int64
        var rate: Double?
    }

    private struct Upload: Sendable {
        var mark = UploadMark()
        var meter = RateMeter()
        /// What was transferred in attempts that ended.
        var before: Int64 = 0
    }

    private struct Board: Sendable {
        var uploads: [RowID: Upload] = [:]
        var volumes: [String: VolumeActivity] = [:]

        mutating func look(_ item: Running, at now: Double) -> [News] {
            var upload = uploads[item.row] ?? Upload()
            let news = upload.mark.look(item.look)
            upload.meter.note(upload.before + item.transferred, at: now)
            uploads[item.row] = upload
            let (sent, rate) = (upload.mark.sent, upload.meter.rate(at: now))
            return news.map { News(running: item, news: $0, sent: sent, rate: rate) }
                + [News(running: item, news: nil, sent: sent, rate: rate)]
        }
    }

    /// How many uploads that do not run are remembered.
    private static let limit = 4096

    private let board = Lock(Board())

    /// Takes in all that runs now (monotonic seconds); returns what there is to tell of each.
    func look(_ running: [Running], at now: Double) -> [News] {
        board.withLock { board in
            var result: [News] = []
            var transferred: [String: Int64] = [:]
            for item in running {
                transferred[item.row.volume, default: 0] += item.transferred
                result += board.look(item, at: now)
            }
            for id in Set(board.volumes.keys).union(transferred.keys) {
                let ended = board.volumes[id, default: VolumeActivity()].transferred
                let total = ended + transferred[id, default: 0]
                var volume = board.volumes[id] ?? VolumeActivity()
                volume.meter.note(total, at: now)
                // Who ends between the two looks is seen twice for a moment: what was told holds.
                volume.total = max(total, volume.total)
                board.volumes[id] = volume
            }
            return result
        }
    }

    /// Takes in one of those that run, of which there may be others.
    func look(only running: Running, at now: Double) -> [News] {
        // How far it is is of no interest any more.
        board.withLock { $0.look(running, at: now).filter { $0.news != nil } }
    }

    /// An attempt at a row is over; `isDone`: the row is gone with it.
    func ended(_ row: RowID, transferred: Int64, isDone: Bool) {
        board.withLock { board in
            var volume = board.volumes[row.volume] ?? VolumeActivity()
            volume.transferred += transferred
            volume.total = max(volume.total, volume.transferred)
            board.volumes[row.volume] = volume
            guard !isDone else { return board.uploads[row] = nil }
            board.uploads[row]?.before += transferred
            board.uploads[row]?.mark.rest()
            if board.uploads.count > Self.limit, let some = board.uploads.keys.first { board.uploads[some] = nil }
        }
    }

    /// A change became remote.
    func finished(_ volume: String, _ path: ObjectKey, size: Int64) {
        count(volume) { volume in
            volume.finished += 1
            // Of very many folders the last ones are counted for the whole volume only.
            let isKnown = volume.done[path.parent] != nil || volume.done.count < Self.limit
            let folder = isKnown ? path.parent : .root
            volume.done[folder, default: ProgressTree.Done()].files += 1
            volume.done[folder, default: ProgressTree.Done()].bytes += size
        }
    }

    /// Nothing is pending in a volume: what comes next is a new beginning.
    func drained(_ volume: String) { count(volume) { $0.done = [:] } }

    /// What became remote by folder since nothing was pending.
    func done(in volume: String) -> [ObjectKey: ProgressTree.Done] { self.volume(volume).done }

    /// Notes something that is counted of a volume.
    func count(_ volume: String, _ body: (inout VolumeActivity) -> Void) {
        board.withLock { body(&$0.volumes[volume, default: VolumeActivity()]) }
    }

    func volume(_ id: String) -> VolumeActivity { board.withLock { $0.volumes[id] ?? VolumeActivity() } }

    /// The furthest an upload was seen, which is `sent` at least, how often it began anew, and its rate.
    func upload(_ row: RowID, sent: Int64 = 0, at now: Double) -> (sent: Int64, restarts: Int, rate: Double?)? {
        board.withLock { board in
            // What was told is remembered, before the first look too.
            if sent > 0 { board.uploads[row, default: Upload()].mark.raise(to: sent) }
            return board.uploads[row].map { ($0.mark.sent, $0.mark.restarts, $0.meter.rate(at: now)) }
        }
    }
}

/// What is counted of a volume since the flusher started.
struct VolumeActivity: Sendable {
    var meter = RateMeter()
    /// Bytes handed to the network by attempts that ended, those that were sent again too.
    var transferred: Int64 = 0
    /// The same, and what those have sent that run, by the last look.
    var total: Int64 = 0
    /// Changes that are remote now.
    var finished = 0
    /// By folder, since nothing was pending.
    var done: [ObjectKey: ProgressTree.Done] = [:]
    var failures = 0
    var conflicts = 0
    /// Uploads that came to need a person.
    var attention = 0
}
