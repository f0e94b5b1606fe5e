// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Database
internal import Journal
internal import Platform

extension Engine {
    /// Ends uploads that may have been left at the remote, and looks again when more is due.
    func sweep(_ session: VolumeSession) {
        guard let store = session.store, state.inspect({ $0.volumes[session.id]?.facts.isOpen ?? false }) else {
            return
        }
        let settings = WorkSettings.unattended(gate: gate, host: options.host)
        let job = RunningJob(row: RowID(volume: session.id, node: 0), path: .root)
        let work = RowWork(session: session, store: store, job: job, settings: settings)
        let sweep = LeftoverSweep(work: work) { (key) throws(JournalError) in
            try self.uploadNames(at: key, of: session)
        }
        do throws(WorkFailure) {
            note(session, pause: try sweep.run())
        } catch {
            Log.info("flusher", "\(session.description.remote): what may be left there is not looked for yet: \(error)")
            note(session, pause: 5)
        }
    }

    private func note(_ session: VolumeSession, pause: Double?) {
        state.inspect { state in
            state.volumes[session.id]?.hasLeftovers = pause != nil
            if let pause { state.maintainAt = min(state.maintainAt, monotonicSeconds() + max(0.2, pause)) }
        }
    }

    /// What every journal with the same bucket knows of uploads in progress.
    private func uploadNames(
        at key: ObjectKey,
        of session: VolumeSession
    ) throws(JournalError) -> (known: Set<String>, isUnderWay: Bool) {
        let wanted = session.fullKey(key)
        var known: Set<String> = []
        var isUnderWay = false
        for other in state.inspect({ $0.volumes.values.map(\.session) }) where other.hasSameBucket(as: session) {
            let names = try other.journal.uploadNames()
            known.formUnion(names.known)
            if names.underWay.contains(where: { other.fullKey($0) == wanted }) { isUnderWay = true }
        }
        return (known, isUnderWay)
    }
}

extension VolumeSession {
    /// A key as the bucket has it.
    fileprivate func fullKey(_ key: ObjectKey) -> ObjectKey {
        let prefix = Array(description.prefix.utf8)
        let slash = UInt8(ascii: "/")
        let isWhole = prefix.isEmpty || prefix.last == slash
        return ObjectKey(bytes: prefix + (isWhole ? [] : [slash]) + key.bytes)
    }

    fileprivate func hasSameBucket(as other: VolumeSession) -> Bool {
        description.endpoint == other.description.endpoint && description.bucket == other.description.bucket
    }
}
