// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import ObjectStore
internal import Platform

/// Writes a transfer's transitions into the volume's journal and into the session's mirror of it.
struct JournalRecorder: TransferRecorder {
    /// The code of errors that are the journal's: the local disk may be full, the upload is as it was.
    static let failure = "journal"
    /// The code of errors that say that the object is still read on this machine.
    static let inUse = "in-use"
    /// The code of errors that say that a request without an answer could take the place of the object.
    static let tooEarly = "too-early"

    let session: VolumeSession
    let transfer: TransferID
    let method: TransferProtocol
    /// What the server copies of a multipart upload, as ``PartComposition/encoded``.
    var composition: [UInt8]?
    /// Somebody waits for it.
    var isAwaited = false

    func beginning(at time: Timestamp) throws(StoreError) {
        try write { (journal) throws(JournalError) in try journal.beginCreation(of: transfer, at: time) }
    }

    func notBegun() throws(StoreError) {
        try write { (journal) throws(JournalError) in try journal.refuseCreation(of: transfer) }
    }

    func perhapsBegun(at time: Timestamp) throws(StoreError) {
        Log.info("flusher", "no answer to the beginning of an upload: what may have come of it is looked for")
        try write { (journal) throws(JournalError) in try journal.doubtCreation(of: transfer, at: time) }
    }

    func left(upload: String, interopVersion: Int) throws(StoreError) {
        guard let key = session.transfer(transfer)?.key else { return }
        try write { (journal) throws(JournalError) in
            try journal.leave(upload, at: key, method: method, interopVersion: Int64(interopVersion))
        }
    }

    func begun(upload: String, interopVersion: Int, partSize: Int64) throws(StoreError) {
        try write { (journal) throws(JournalError) in
            try journal.setUpload(
                transfer,
                method: method,
                upload: upload,
                interopVersion: Int64(interopVersion),
                partSize: partSize,
                composition: composition
            )
        }
        session.change(transfer) {
            $0.method = method
            $0.composition = composition
            $0.upload = upload
            $0.interopVersion = Int64(interopVersion)
            $0.partSize = partSize
        }
    }

    func part(number: Int, size: Int64, md5: [UInt8], entityTag: String) throws(StoreError) {
        let part = TransferPart(number: Int64(number), size: size, digest: md5, entityTag: entityTag)
        var sum: Int64 = 0
        try write { (journal) throws(JournalError) in sum = try journal.recordPart(transfer, part) }
        session.change(transfer) { $0.acknowledged = sum }
    }

    func acknowledged(_ bytes: Int64) throws(StoreError) {
        guard session.transfer(transfer)?.acknowledged != bytes else { return }
        try write { (journal) throws(JournalError) in
            try journal.recordProgress(transfer, acknowledged: bytes)
        }
        session.change(transfer) { $0.acknowledged = bytes }
    }

    func mayCommit(expectedTag: String?) throws(StoreError) {
        guard let known = session.transfer(transfer) else { return }
        var pause: Double?
        try write { (_) throws(JournalError) in
            pause = try session.pauseForWrites(at: known.key, over: expectedTag)
        }
        if let pause {
            throw StoreError(.localInput, VolumeSession.isTooEarly, code: Self.tooEarly, retryAfter: pause)
        }
        guard case .version(let version) = known.base else { return }
        let verdict = session.readers.ask(known.key, version, isAwaited: isAwaited) { .replacement }
        guard case .wait(let seconds, let reason) = verdict else { return }
        throw StoreError(.localInput, reason, code: Self.inUse, retryAfter: seconds)
    }

    func committing(expectedTag: String?) throws(StoreError) {
        let known = session.transfer(transfer)
        if let known, session.isDoubtful(known) {
            try write { (journal) throws(JournalError) in
                try journal.doubt(known, tag: known.expectedTag ?? expectedTag, until: session.endOfDoubt)
            }
        }
        session.setAnswered(transfer, false)
        if let known, known.phase == .committing, known.expectedTag == expectedTag { return }
        try write { (journal) throws(JournalError) in
            try journal.markCommitting(transfer, expectedTag: expectedTag)
        }
        session.change(transfer) {
            $0.phase = .committing
            $0.expectedTag = expectedTag
        }
    }

    func answered() { session.setAnswered(transfer, true) }

    private func write(_ body: (Journal) throws(JournalError) -> Void) throws(StoreError) {
        do throws(JournalError) {
            try body(session.journal)
        } catch {
            throw StoreError(.localInput, "the journal cannot be written: \(error)", code: Self.failure)
        }
    }
}
