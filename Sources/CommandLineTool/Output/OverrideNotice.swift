// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// Tells a person what would have held the uploads that go because the person asked for them: each reason once.
final class OverrideNotice {
    private var told: Set<OverriddenReport> = []

    /// Prints a line on standard error for each volume with reasons that were not told yet.
    func print(_ reports: [OverriddenReport]) {
        for report in reports {
            let news = report.reasons.filter { reason in
                told.insert(OverriddenReport(volume: report.volume, remote: report.remote, reasons: [reason])).inserted
            }
            guard !news.isEmpty else { continue }
            Console.note("\(report.remote): sent now as you ask for it, although: \(news.joined(separator: ", "))")
        }
    }
}
