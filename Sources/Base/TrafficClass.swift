// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How urgent what goes over the network is; greater goes first.
package enum TrafficClass: Int, Hashable, Sendable, CaseIterable, Comparable {
    /// It has time, and stands back for others that use the same line.
    case discretionary
    case background
    /// Somebody waits for it.
    case interactive

    package static func < (left: TrafficClass, right: TrafficClass) -> Bool { left.rawValue < right.rawValue }
}

/// Which way data goes.
package enum TrafficDirection: Int, Hashable, Sendable, CaseIterable {
    case up
    case down
}
