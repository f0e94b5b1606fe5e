// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// What runs on multipart uploads at this moment; nothing of it survives the process, and nothing needs to.
final class ActiveUploads: Sendable {
    private struct Activity {
        var isEnding = false
        /// Whether a received part is being made one of the upload's.
        var isCommitting = false
        /// Parts being written into the shared file.
        var slots: Set<Int> = []
    }

    private let state = Monitor<[String: Activity]>([:])

    /// Runs `body`, which completes or aborts an upload, alone; it learns whether the shared file is at rest.
    func withEnding<Result, Failure: Error>(
        _ id: String,
        _ body: (_ isAtRest: Bool) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let isAtRest = state.wait { uploads -> Bool? in
            if uploads[id]?.isEnding == true || uploads[id]?.isCommitting == true { return nil }
            uploads[id, default: Activity()].isEnding = true
            return uploads[id]?.slots.isEmpty ?? true
        }
        defer {
            state.update { uploads in
                uploads[id]?.isEnding = false
                Self.tidy(&uploads, id)
            }
        }
        return try body(isAtRest ?? false)
    }

    /// Runs `body`, which gives received parts their names, alone and not while the upload ends: a completion
    /// must find the parts that it chose.
    func withCommit<Result, Failure: Error>(
        _ id: String,
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        _ = state.wait { uploads -> Void? in
            if uploads[id]?.isEnding == true || uploads[id]?.isCommitting == true { return nil }
            uploads[id, default: Activity()].isCommitting = true
            return ()
        }
        defer {
            state.update { uploads in
                uploads[id]?.isCommitting = false
                Self.tidy(&uploads, id)
            }
        }
        return try body()
    }

    /// Reserves a part's slot; false when it is being written or the upload is ending.
    func beginSlot(_ id: String, _ number: Int) -> Bool {
        state.update { uploads in
            guard uploads[id]?.isEnding != true else { return false }
            return uploads[id, default: Activity()].slots.insert(number).inserted
        }
    }

    func endSlot(_ id: String, _ number: Int) {
        state.update { uploads in
            uploads[id]?.slots.remove(number)
            Self.tidy(&uploads, id)
        }
    }

    private static func tidy(_ uploads: inout [String: Activity], _ id: String) {
        guard let activity = uploads[id], !activity.isEnding, !activity.isCommitting else { return }
        if activity.slots.isEmpty { uploads[id] = nil }
    }
}
