// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Platform

/// Follows the flusher's events whenever one runs; it never starts one.
final class FlusherWatcher: Sendable {
    enum Happening: Sendable {
        /// A flusher is there, its process.
        case connected(pid: Int32)
        /// What a flusher of this version tells.
        case event(TransferEvent)
        /// Something changed, as a flusher of an earlier version tells it.
        case change
        /// No flusher runs, or the one that did is gone.
        case gone
    }

    /// How often it is looked whether a flusher is there again, in seconds.
    private static let pause = 0.5

    private let launcher: FlusherLauncher
    private let volumes: [String]
    private let report: @Sendable (Happening) -> Void

    /// `volumes` empty: all; `report` is called on a thread of its own, never twice at once.
    init(
        _ launcher: FlusherLauncher,
        volumes: [String] = [],
        report: @escaping @Sendable (Happening) -> Void
    ) throws(CommandFailure) {
        self.launcher = launcher
        self.volumes = volumes
        self.report = report
        do throws(SystemError) {
            try Thread.detached(name: "watch") { self.run() }
        } catch {
            throw CommandFailure(error.description)
        }
    }

    private func run() {
        var isGone = false
        while true {
            if let client = (try? launcher.connectIfRunning(program: "watch")) ?? nil {
                follow(client)
                client.shutdown()
                isGone = false
            }
            if !isGone { report(.gone) }
            isGone = true
            pause(Self.pause)
        }
    }

    /// Reads events until the connection ends.
    private func follow(_ client: ControlClient) {
        do throws(ControlError) {
            do throws(ControlError) {
                _ = try client.call(.follow(volumes: volumes))
            } catch {
                // One of an earlier version knows only what mounts ask for.
                guard case .refused = error else { throw error }
                _ = try client.call(.subscribe)
            }
            report(.connected(pid: client.flusherPID))
            while let event = try client.nextEvent(timeout: nil) {
                if case .activity(let activity) = event { report(.event(activity)) } else { report(.change) }
            }
        } catch {
            Log.debug("watch", error.description)
        }
    }

    private func pause(_ seconds: Double) {
        _ = Monitor(()).wait(timeout: seconds) { _ in nil as Void? }
    }
}
