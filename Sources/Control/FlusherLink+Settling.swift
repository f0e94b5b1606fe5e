// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Waiting for uploads.
extension FlusherLink {
    /// How many may wait at once, each with a connection; the flusher serves a bounded number of clients.
    private static let most = ControlProtocol.clientLimit / 4

    /// Has what is complete at or below a path sent now, as `moorage flush` does, and waits for it; returns what only a
    /// person can help.
    ///
    /// Nil when the request that this thread works on was given up meanwhile.
    package func settle(_ path: String) throws(ControlError) -> [UploadReport]? {
        let isAdmitted: Void? = settling.waitUnlessInterrupted { count in
            guard count < Self.most else { return nil }
            count += 1
        }
        guard isAdmitted != nil else { return nil }
        defer { settling.update { $0 -= 1 } }
        let selection = UploadSelection(volumes: [volume], paths: path.isEmpty ? [] : [path])
        var failures = 0
        while true {
            let isGivenUp = Monitor(false)
            do throws(ControlError) {
                let left = try flush(selection, isGivenUp) { failures = 0 }
                // One that ends just now leaves all of it.
                if left.isEmpty || left.contains(where: { $0.needsPerson }) || failures >= 4 { return left }
            } catch {
                if isGivenUp.inspect({ $0 }) { return nil }
                // A flusher that was killed is started again; what it had sent stays sent.
                guard case .closed = error, failures < 4 else { throw error }
            }
            failures += 1
            usleep(200_000)
        }
    }

    private func flush(
        _ selection: UploadSelection,
        _ isGivenUp: Monitor<Bool>,
        onProgress: () -> Void
    ) throws(ControlError) -> [UploadReport] {
        let client = try connect()
        defer { client.shutdown() }
        let watch = Interruption.watch {
            isGivenUp.update { $0 = true }
            client.shutdown()
        }
        defer { watch?.end() }
        let request = ControlRequest.flush(selection: selection, timeout: nil)
        var reports = 0
        let reply = try client.stream(request, timeout: nil) { _ in
            reports += 1
            // The first comes at once, whatever becomes of the rest.
            if reports > 1 { onProgress() }
        }
        guard case .flushed(let left) = reply else { throw .malformed("no end of the flush") }
        return left
    }
}

extension UploadReport {
    /// Whether it does not go on by itself.
    fileprivate var needsPerson: Bool {
        switch state {
        case .paused, .attention, .conflict: true
        case .queued, .waiting, .uploading: waiting.contains { $0.reason == "auth" || $0.reason == "paused" }
        }
    }
}
