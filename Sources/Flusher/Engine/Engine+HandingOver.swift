// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore
internal import Platform

extension Engine {
    /// How long the requests under way may take before they are cut, in seconds: a part that arrives is not sent again.
    static let handoverPatience = 30.0

    var isHandingOver: Bool { state.inspect { $0.isHandingOver } }

    /// Begins nothing any more; false when that was so already.
    func beginHandingOver() -> Bool {
        state.update { state in
            defer { state.isHandingOver = true }
            return !state.isHandingOver
        }
    }

    /// Lets the requests under way end, so that the next flusher goes on between parts.
    func windDown() {
        let jobs = state.inspect { Array($0.jobs.values) }
        for job in jobs { job.cancellation.windDown() }
        let isDone = state.wait(timeout: Self.handoverPatience) { $0.jobs.isEmpty ? true : nil }
        if isDone == nil { Log.notice("flusher", "cuts what did not end in \(Int(Self.handoverPatience)) s") }
    }
}
