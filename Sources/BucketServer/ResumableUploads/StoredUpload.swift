// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform

/// One upload resource: its manifest and its bytes on disk, used by one request at a time.
///
/// The length of the data file is the offset, also after a restart: the file systems we keep state on do
/// not show a length before the bytes below it are written.
final class StoredUpload: Sendable {
    /// The name of its files: a digest of the token in its URL, so that the folder tells no URL.
    let id: String
    private let folder: String

    /// What requests share.
    struct State {
        var manifest: UploadManifest
        var offset: Int64
        /// The content being received by the request that holds the upload.
        var receiving: (any HTTPRequestBody)?
        var isHeld = false
        /// Requests that wait to be the only one.
        var waiters = 0
        var isRemoved = false
        /// Seconds since 1970 of the last sign of life.
        var usedAt: Int64
    }

    private let state: Monitor<State>

    var dataPath: String { "\(folder)/\(id).data" }
    private var manifestPath: String { "\(folder)/\(id).upload" }

    /// Takes up an upload whose files are there.
    init(id: String, folder: String, manifest: UploadManifest, offset: Int64, usedAt: Int64) {
        self.id = id
        self.folder = folder
        state = Monitor(State(manifest: manifest, offset: offset, usedAt: usedAt))
    }

    /// Creates an upload's files, durably.
    convenience init(creating id: String, folder: String, manifest: UploadManifest) throws(SystemError) {
        self.init(id: id, folder: folder, manifest: manifest, offset: 0, usedAt: Timestamp.now().seconds)
        _ = try FileDescriptor.open(dataPath, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
        try Files.writeAtomically(manifestPath, manifest.encoded)
    }

    // MARK: the holder

    /// How taking an upload went.
    enum Hold {
        case held
        case removed
        /// The request before this one did not let go in time.
        case busy
    }

    /// Makes the calling request the only one, interrupting the one that is receiving, if any.
    ///
    /// With `takesRest` content that is still on its way is let in first: what a client sent before it broke off
    /// may sit in buffers, and would have to be sent again. A holder that runs the target's handler is waited for,
    /// at most `timeout` seconds.
    func hold(timeout: Double, takesRest: Bool) -> Hold {
        if takesRest { waitForRest() }
        let body = state.inspect { state in
            state.waiters += 1
            return state.receiving
        }
        body?.interrupt()
        defer { state.inspect { $0.waiters -= 1 } }
        let result: Hold? = state.wait(timeout: timeout) { state in
            if state.isRemoved { return .removed }
            guard !state.isHeld else { return nil }
            state.isHeld = true
            state.usedAt = Timestamp.now().seconds
            return .held
        }
        return result ?? .busy
    }

    /// How long content may keep another request waiting, and how long none must have come to end that, in seconds.
    private static let restTime = 1.0
    private static let restPause = 0.1

    private func waitForRest() {
        let end = monotonicSeconds() + Self.restTime
        while monotonicSeconds() < end {
            let seen = state.inspect { $0.receiving == nil ? nil : $0.offset }
            guard let seen else { return }
            let released: Void? = state.wait(timeout: Self.restPause) { $0.receiving == nil ? () : nil }
            if released != nil || offset == seen { return }
        }
    }

    /// Ends the calling request's hold.
    func release() {
        state.update { state in
            state.isHeld = false
            state.receiving = nil
            state.usedAt = Timestamp.now().seconds
        }
    }

    /// Names the content that the holder receives, so that the next request can interrupt it.
    func receives(_ body: any HTTPRequestBody) {
        let isAwaited = state.update { state in
            state.receiving = body
            return state.waiters > 0
        }
        if isAwaited { body.interrupt() }
    }

    func receivesNothing() { state.update { $0.receiving = nil } }

    // MARK: facts

    var manifest: UploadManifest { state.inspect { $0.manifest } }
    var offset: Int64 { state.inspect { $0.offset } }
    var usedAt: Int64 { state.inspect { $0.usedAt } }
    /// Whether no request uses it now.
    var isIdle: Bool { state.inspect { !$0.isHeld } }
    var hasEnded: Bool { state.inspect { $0.manifest.answer != nil } }

    /// Notes bytes written behind the old offset.
    func advance(to offset: Int64) { state.update { $0.offset = offset } }

    /// Changes the manifest, on disk first.
    func update(_ change: (inout UploadManifest) -> Void) throws(SystemError) {
        var manifest = manifest
        change(&manifest)
        try Files.writeAtomically(manifestPath, manifest.encoded)
        let changed = manifest
        state.update { $0.manifest = changed }
    }

    // MARK: files

    func openData(_ flags: Int32) throws(SystemError) -> FileDescriptor {
        try FileDescriptor.open(dataPath, flags | O_NOFOLLOW)
    }

    /// Whether the bytes are still here; the target may have taken the file over.
    var hasData: Bool { (try? FileStatus.of(dataPath)) != nil }

    /// Drops the bytes of an upload that has ended.
    func removeData() {
        try? Files.removeIfPresent(dataPath)
    }

    /// Removes every trace; requests that wait for it find it gone.
    func remove() {
        // The manifest goes first: data without one is swept at the next start.
        try? Files.removeIfPresent(manifestPath)
        removeData()
        state.update { $0.isRemoved = true }
    }
}
