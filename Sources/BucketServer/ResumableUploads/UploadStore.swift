// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import Platform
internal import Synchronization

/// What uploads may cost the server; times in seconds, sizes in bytes.
package struct ResumableUploadLimits: Sendable {
    /// Uploads that have not ended, at a time.
    package var openUploads = 1000
    /// Uploads that have ended and still answer, at a time; the oldest ones are forgotten first.
    package var endedUploads = 10_000
    /// Bytes of one upload.
    package var maxSize: Int64 = 48 << 40
    /// Bytes of one append; nil for no limit.
    package var maxAppendSize: Int64?
    /// How long an upload lives without a request.
    package var idleLife: Int64 = 7 * 86_400
    /// How long an upload that has ended still answers.
    package var endedLife: Int64 = 86_400
    /// How long a request waits for the one before it on the same upload.
    package var holdTimeout = 30.0
    /// The free space that must remain on the disk.
    package var reservedSpace: Int64 = 64 << 20

    package init() {}
}

/// The uploads of a server: files in a private folder, found by the token of their URL.
final class UploadStore: Sendable {
    /// Why no upload could be begun.
    enum Refusal: Error {
        case tooMany
        case noSpace
        case system(SystemError)
    }

    let limits: ResumableUploadLimits
    private let folder: String

    private struct State {
        var uploads: [String: StoredUpload] = [:]
        var sweptAt: Int64 = 0
    }
    private let state: Lock<State>

    /// Opens `folder`, creating it when missing, and takes up the uploads in it.
    init(folder: String, limits: ResumableUploadLimits) throws(SystemError) {
        self.folder = folder
        self.limits = limits
        try Files.makeDirectories(folder)
        if chmod(folder, 0o700) != 0 { throw SystemError.last("chmod", folder) }
        let uploads = try Self.load(folder)
        state = Lock(State(uploads: uploads))
    }

    private static func load(_ folder: String) throws(SystemError) -> [String: StoredUpload] {
        let names = Set(try Files.names(in: folder).map(\.string))
        var uploads: [String: StoredUpload] = [:]
        for name in names where name.hasSuffix(".upload") {
            let id = String(name.dropLast(".upload".utf8.count))
            if let upload = try take(id, folder) { uploads[id] = upload }
        }
        for name in names
        where name.hasSuffix("~") || name.hasSuffix(".data") && uploads[String(name.dropLast(5))] == nil {
            try Files.removeIfPresent("\(folder)/\(name)")
        }
        return uploads
    }

    /// Takes up one upload; one whose bytes went into the target before its end was recorded is gone.
    private static func take(_ id: String, _ folder: String) throws(SystemError) -> StoredUpload? {
        let path = "\(folder)/\(id).upload"
        guard let manifest = UploadManifest(try Files.read(path)), let status = try FileStatus.of(path) else {
            Log.warning("serve", "an upload's manifest is damaged; the upload is given up")
            try Files.removeIfPresent(path)
            return nil
        }
        let data = try FileStatus.of("\(folder)/\(id).data")
        guard let offset = manifest.finalSize ?? data?.size else {
            try Files.removeIfPresent(path)
            return nil
        }
        let usedAt = max(status.modified.seconds, data?.modified.seconds ?? 0)
        return StoredUpload(id: id, folder: folder, manifest: manifest, offset: offset, usedAt: usedAt)
    }

    // MARK: finding

    private static func id(of token: String) -> String {
        String(hexadecimalString(Digest.of(Array(token.utf8), .sha256)).prefix(40))
    }

    /// The upload of a token, nil when there is none or its life is over.
    func find(_ token: String) -> StoredUpload? {
        let id = Self.id(of: token)
        guard let upload = state.withLock({ $0.uploads[id] }) else { return nil }
        guard isOver(upload, now: Timestamp.now().seconds) else { return upload }
        remove(upload)
        return nil
    }

    /// Begins an upload; returns it with the token that its URL carries, 256 random bits.
    func create(_ manifest: UploadManifest) throws(Refusal) -> (upload: StoredUpload, token: String) {
        sweep()
        forgetEnded()
        guard state.withLock({ $0.uploads.values.count { !$0.hasEnded } }) < limits.openUploads else { throw .tooMany }
        let token = Randomness.hexadecimal(bytes: 32)
        do {
            let free = try Files.freeSpace(at: folder)
            guard (manifest.length ?? 0) + limits.reservedSpace <= free else { throw Refusal.noSpace }
            let upload = try StoredUpload(creating: Self.id(of: token), folder: folder, manifest: manifest)
            state.withLock { $0.uploads[upload.id] = upload }
            return (upload, token)
        } catch let error as SystemError {
            throw .system(error)
        } catch {
            throw .noSpace
        }
    }

    func remove(_ upload: StoredUpload) {
        upload.remove()
        state.withLock { _ = $0.uploads.removeValue(forKey: upload.id) }
    }

    // MARK: age

    /// The seconds an upload lives on without a request.
    func remainingLife(_ upload: StoredUpload) -> Int64 {
        let life = upload.hasEnded ? limits.endedLife : limits.idleLife
        return max(0, upload.usedAt + life - Timestamp.now().seconds)
    }

    private func isOver(_ upload: StoredUpload, now: Int64) -> Bool {
        upload.isIdle && upload.usedAt + (upload.hasEnded ? limits.endedLife : limits.idleLife) < now
    }

    /// Removes uploads whose life is over, at most once a minute.
    private func sweep() {
        let now = Timestamp.now().seconds
        let uploads: [StoredUpload] = state.withLock { state in
            guard abs(now - state.sweptAt) >= 60 else { return [] }
            state.sweptAt = now
            return Array(state.uploads.values)
        }
        for upload in uploads where isOver(upload, now: now) { remove(upload) }
    }

    /// Keeps the number of uploads that have ended bounded.
    private func forgetEnded() {
        let uploads = state.withLock { $0.uploads.count > limits.endedUploads ? Array($0.uploads.values) : [] }
        let ended = uploads.filter { $0.hasEnded && $0.isIdle }
        guard ended.count > limits.endedUploads else { return }
        let surplus = ended.count - limits.endedUploads / 10 * 9
        for upload in ended.sorted(by: { $0.usedAt < $1.usedAt }).prefix(surplus) { remove(upload) }
    }
}
