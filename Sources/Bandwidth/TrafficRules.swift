// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// Which uploads stand back for others on the line, and which are marked, as it is set now.
///
/// One thread sets it, the transport's follows.
package final class TrafficRules: Sendable {
    package struct Values: Hashable, Sendable {
        /// Uploads of this class and below stand back; nil: none.
        package var yieldsUpTo: TrafficClass?
        /// Whether the packets of uploads that nobody waits for are marked as lower effort (RFC 8622).
        package var marksLowEffort: Bool

        package init(yieldsUpTo: TrafficClass? = .discretionary, marksLowEffort: Bool = true) {
            self.yieldsUpTo = yieldsUpTo
            self.marksLowEffort = marksLowEffort
        }
    }

    private let state: Lock<Values>

    package init(_ values: Values = Values()) {
        state = Lock(values)
    }

    package var values: Values {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
