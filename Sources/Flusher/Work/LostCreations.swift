// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore

/// Finds, among the uploads that the remote lists for a key, those that we asked for and whose names never arrived.
///
/// A listing tells of an upload only when and by whom it was begun. Ours were begun while we asked, by us, and never
/// got a part; of those of others with the same key that holds only in their first moments. So a look is taken some
/// time after, what is begun too recently is left for the next look, and where more uploads fit than were asked for
/// nothing is touched, until others' uploads have got parts or are over.
package struct LostCreations: Sendable {
    /// A request whose answer did not come.
    package struct Doubt: Hashable, Sendable {
        package let id: Int64
        /// The server's time before the request was sent.
        package let began: Timestamp
        /// The server's time when it was given up; nil when the process that sent it ended.
        package let doubted: Timestamp?

        package init(id: Int64, began: Timestamp, doubted: Timestamp?) {
            self.id = id
            self.began = began
            self.doubted = doubted
        }

        /// When the server may have carried it out: also a while after the connection was lost.
        ///
        /// Listings are exact to the second, and so is the server's time as we know it.
        fileprivate func covers(_ time: Timestamp, lateness: Double) -> Bool {
            let end = doubted ?? began.advanced(bySeconds: LostCreations.patience)
            return time.seconds >= began.seconds - 2 && time <= end.advanced(bySeconds: lateness)
        }

        fileprivate func age(_ now: Timestamp) -> Double { seconds(from: doubted ?? began, to: now) }
    }

    /// What to do now.
    package struct Verdict: Hashable, Sendable {
        /// The uploads to abort, each with the doubt that it settles.
        package var aborts: [Abort] = []
        /// The doubts that are over without an upload.
        package var settled: [Int64] = []
        /// More uploads fit than were asked for.
        package var isAmbiguous = false

        package struct Abort: Hashable, Sendable {
            package let upload: String
            package let doubt: Int64

            package init(upload: String, doubt: Int64) {
                self.upload = upload
                self.doubt = doubt
            }
        }

        package init() {}
    }

    /// How long a request goes without an answer at most, in seconds.
    fileprivate static let patience = 10.0
    /// How long after we gave up a request is usually carried out, if at all, in seconds.
    private static let usualLateness = 10.0
    /// How old an upload is before its lack of parts means anything, in seconds; where it is an unusually late one.
    private static let grace = (usual: 5.0, late: 40.0)
    /// When to look, in seconds after the doubt; once more at any time after the last.
    private static let looks = [7.0, 15, 60, 180, 300, 900]
    /// From this age on no upload means that there never was one.
    private var absence: Double { max(60, lateness + 50) }

    /// Oldest first.
    package let doubts: [Doubt]
    /// How long after we gave up a request may be carried out, in seconds, at least the usual time.
    package let lateness: Double

    package init(_ doubts: [Doubt], lateness: Double) {
        self.doubts = doubts
        self.lateness = max(Self.usualLateness, lateness)
    }

    /// Seconds until the next look, 0 when one is due; `last` is when the remote was looked at before.
    package func pause(now: Timestamp, last: Timestamp?) -> Double {
        let pauses = doubts.map { doubt in
            let age = doubt.age(now)
            let seen = last.map { doubt.age($0) } ?? -1
            let next = Self.looks.first { $0 > seen } ?? seen + 60
            return max(0, next - age)
        }
        return pauses.min() ?? 0
    }

    /// The uploads that may be ours as far as the listing tells; `known` are those that some journal has.
    package func candidates(_ listed: [UploadInProgress], known: Set<String>) -> [UploadInProgress] {
        let ourselves = Set(listed.filter { known.contains($0.uploadID) }.compactMap(\.initiator))
        return listed.filter { upload in
            guard !known.contains(upload.uploadID), let time = upload.initiated else { return false }
            if let initiator = upload.initiator, !ourselves.isEmpty, !ourselves.contains(initiator) { return false }
            return doubts.contains { $0.covers(time, lateness: lateness) }
        }
    }

    /// Whether an upload without parts would have got one if it were somebody's who knows its name.
    private func isRipe(_ upload: UploadInProgress, _ now: Timestamp) -> Bool {
        guard let time = upload.initiated else { return false }
        let isUsual = doubts.contains { $0.covers(time, lateness: Self.usualLateness) }
        return seconds(from: time, to: now) >= (isUsual ? Self.grace.usual : Self.grace.late)
    }

    /// Judges the candidates that have no parts.
    package func verdict(_ empty: [UploadInProgress], now: Timestamp) -> Verdict {
        var verdict = Verdict()
        let isRipe = empty.allSatisfy { self.isRipe($0, now) }
        verdict.isAmbiguous = empty.count > doubts.count
        var open = doubts
        if isRipe, !verdict.isAmbiguous {
            for upload in empty {
                guard let time = upload.initiated,
                    let index = open.firstIndex(where: { $0.covers(time, lateness: lateness) })
                else {
                    continue
                }
                verdict.aborts.append(.init(upload: upload.uploadID, doubt: open.remove(at: index).id))
            }
        }
        let limit = empty.isEmpty || verdict.aborts.count == empty.count ? absence : Self.looks.last ?? 0
        verdict.settled = open.filter { $0.age(now) >= limit }.map(\.id)
        return verdict
    }
}

private func seconds(from start: Timestamp, to end: Timestamp) -> Double {
    Double(end.nanoseconds - start.nanoseconds) / 1e9
}
