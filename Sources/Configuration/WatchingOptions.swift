// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the flusher does to be watched, and tells by itself: settings of `[policy]` alone.
package struct WatchingOptions: Hashable, Sendable {
    /// Where metrics can be had; nil: nowhere.
    package var metrics: ListeningPlace?
    /// The program to run when nothing is pending in a volume any more, with its arguments; empty: none.
    package var onIdle: [String] = []
    /// The one to run when something needs a person.
    package var onAttention: [String] = []
    /// The one that is asked before an upload that has waited begins.
    package var beforeStart: [String] = []
    /// How long each of them may take, in seconds.
    package var hookTimeout: Double = 30
    /// Whether the desktop is told when something needs a person.
    package var notifies = true

    package init() {}

    package init(_ values: OptionValues) {
        metrics = values.text(.metricsListen).flatMap { ListeningPlace($0) }
        onIdle = values.text(.onIdle).flatMap { ArgumentWords.program($0) } ?? []
        onAttention = values.text(.onAttention).flatMap { ArgumentWords.program($0) } ?? []
        beforeStart = values.text(.beforeStart).flatMap { ArgumentWords.program($0) } ?? []
        hookTimeout = values.seconds(.hookTimeout) ?? hookTimeout
        notifies = values.flag(.notifications)
    }
}
