// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension OptionName {
    /// What is told of uploads without being asked.
    package static let watching: [OptionName] = [
        .metricsListen, .notifications, .onIdle, .onAttention, .beforeStart, .hookTimeout,
    ]

    var watchingDefinition: OptionDefinition {
        switch self {
        case .metricsListen:
            row(.loopback, .flusher, nil, "PLACE", "Serve metrics for Prometheus there, in its text format.")
        case .notifications:
            row(.flag, .flusher, "true", "", "Tell the desktop when something needs a person, where there is one.")
        case .onIdle:
            row(.program, .flusher, nil, "PROGRAM", "Run this when nothing is pending in a volume any more.")
        case .onAttention:
            row(.program, .flusher, nil, "PROGRAM", "Run this when an upload needs a person, or a conflict was found.")
        case .beforeStart:
            row(
                .program,
                .flusher,
                nil,
                "PROGRAM",
                "Ask this before an upload that has waited begins: it may let it go, hold it, or call for a person."
            )
        default:
            row(.seconds(1...600), .flusher, "30s", "TIME", "End such a program when it takes longer than this.")
        }
    }
}
