// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// A wrong setting, name or folder: what, why, and what to do next, on one line.
package struct ConfigurationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What was being read or done, such as `/etc/moorage/config:12`.
    package let subject: String
    /// What is wrong with it, and what to do next.
    package let reason: String

    package init(_ subject: String, _ reason: String) {
        self.subject = subject
        self.reason = reason
    }

    package init(_ error: SystemError, doing subject: String) {
        self.subject = subject
        reason = error.description
    }

    package var description: String { "\(subject): \(reason)" }
}
