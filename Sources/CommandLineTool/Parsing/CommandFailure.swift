// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Why a command ends without success: one line for people and the exit status.
struct CommandFailure: Error, Equatable {
    let message: String
    /// 1: it failed; 2: it was called wrongly; 32: mount(8)'s status for a failed mount.
    let status: Int32

    init(_ message: String, status: Int32 = 1) {
        self.message = message
        self.status = status
    }

    /// The command was called wrongly.
    static func usage(_ message: String) -> CommandFailure {
        CommandFailure(message, status: 2)
    }
}
