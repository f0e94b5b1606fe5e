// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import ObjectStore
internal import Platform

/// Ends what the journal says may be left at the remote.
///
/// Nothing waits for it: the content arrives by other uploads meanwhile.
struct LeftoverSweep {
    let work: RowWork
    /// The names of the uploads that any journal knows, and whether the creation of one to the key is under way.
    let names: (ObjectKey) throws(JournalError) -> (known: Set<String>, isUnderWay: Bool)

    /// An upload that cannot be ended for so long is given up, in seconds.
    private static let patience = 900.0

    /// Does what is due; returns the seconds until more is, nil when nothing is left.
    func run() throws(WorkFailure) -> Double? {
        let leftovers = try work.journal { (journal) throws(JournalError) in try journal.leftovers() }
        var pause: Double?
        for leftover in leftovers where leftover.upload != nil {
            if !end(leftover) { pause = 5 }
        }
        // A creation under way is nobody's business before its answer comes, or does not.
        if leftovers.contains(where: { $0.transfer != nil }) { pause = min(pause ?? 1, 1) }
        let lost = Dictionary(grouping: leftovers.filter { $0.upload == nil && $0.transfer == nil }, by: \.key)
        for (key, group) in lost {
            if let next = try search(key, group) { pause = min(pause ?? next, next) }
        }
        return pause
    }

    // MARK: uploads that are known

    /// Ends an upload; false when it is to be tried again.
    private func end(_ leftover: Leftover) -> Bool {
        do throws(WorkFailure) {
            try TransferCleanup(work: work).end(leftover)
            try remove(leftover.id)
            return true
        } catch {
            let age = Double(Timestamp.now().nanoseconds - leftover.beganAt.nanoseconds) / 1e9
            guard case .store = error, age > Self.patience else { return false }
            Log.warning("flusher", "\(leftover.key): an upload stays at the remote, which does not end it: \(error)")
            return (try? remove(leftover.id)) != nil
        }
    }

    private func remove(_ id: Int64) throws(WorkFailure) {
        try work.journal { (journal) throws(JournalError) in try journal.removeLeftover(id) }
    }

    // MARK: uploads whose names never arrived

    /// Looks for the uploads to one key if it is time; returns the seconds until the next look, nil for none.
    private func search(_ key: ObjectKey, _ leftovers: [Leftover]) throws(WorkFailure) -> Double? {
        let doubts = leftovers.map { LostCreations.Doubt(id: $0.id, began: $0.beganAt, doubted: $0.doubtedAt) }
        let lost = LostCreations(doubts, lateness: work.session.description.lateness)
        do throws(WorkFailure) {
            let now = try work.remote { (store) throws(StoreError) in try store.serverTime() }
            let pause = lost.pause(now: now, last: work.session.lastLook(at: key))
            guard pause == 0 else { return pause }
            guard let verdict = try look(key, lost, now) else { return 1 }
            work.session.looked(at: key, now)
            try carryOut(verdict, key)
            let isOver = verdict.aborts.count + verdict.settled.count == leftovers.count
            if isOver { work.session.looked(at: key, nil) }
            return isOver ? nil : lost.pause(now: now, last: now)
        } catch {
            guard case .store(let cause) = error, !cause.isTransient, cause.cause != .authentication else {
                throw error
            }
            // The server cannot tell, or may not: what it has of ours is for its own tidying up.
            Log.notice("flusher", "\(key): an upload may be left at the remote, which does not list any: \(cause)")
            for leftover in leftovers { try remove(leftover.id) }
            return nil
        }
    }

    /// Asks the remote; nil when one of ours may just be beginning.
    private func look(
        _ key: ObjectKey,
        _ lost: LostCreations,
        _ now: Timestamp
    ) throws(WorkFailure) -> LostCreations.Verdict? {
        let listed = try work.remote { (store) throws(StoreError) in try store.listMultipartUploads(key) }
        // Read after the listing: what was listed and is ours is known by now, or under way.
        let names = try work.journal { (_) throws(JournalError) in try self.names(key) }
        guard !names.isUnderWay else { return nil }
        var empty: [UploadInProgress] = []
        for upload in lost.candidates(listed, known: names.known) where try isEmpty(upload, key) {
            empty.append(upload)
        }
        return lost.verdict(empty, now: now)
    }

    /// Whether an upload has no part; one that is over has no place among the candidates either.
    private func isEmpty(_ upload: UploadInProgress, _ key: ObjectKey) throws(WorkFailure) -> Bool {
        do throws(WorkFailure) {
            return try work.remote { (store) throws(StoreError) in
                try store.listParts(key, uploadID: upload.uploadID).isEmpty
            }
        } catch {
            if case .store(let cause) = error, cause.cause == .noSuchUpload { return false }
            throw error
        }
    }

    private func carryOut(_ verdict: LostCreations.Verdict, _ key: ObjectKey) throws(WorkFailure) {
        for abort in verdict.aborts {
            try TransferCleanup(work: work).abortMultipart(key, abort.upload)
            Log.notice("flusher", "\(key): ended an upload whose name had not arrived")
            try remove(abort.doubt)
        }
        for doubt in verdict.settled {
            if verdict.isAmbiguous {
                Log.warning("flusher", "\(key): an upload of ours may be left at the remote among those of others")
            }
            try remove(doubt)
        }
    }
}
