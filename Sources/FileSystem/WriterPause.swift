// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// Holding up writers where room is scarce.
enum WriterPause {
    /// The longest pause, in seconds: just before there is no room, for 1 MiB.
    static let longest = 0.2

    /// Waits, and ends when the caller is being killed.
    static func rest(_ seconds: Double) throws(FileError) {
        let isGivenUp = Monitor(false)
        let watch = Interruption.watch { isGivenUp.update { $0 = true } }
        defer { watch?.end() }
        if isGivenUp.wait(timeout: seconds, until: { $0 ? true : nil }) == true { throw .interrupted }
    }
}
