// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A failed system call: what was called, on what, and its errno.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The errno value, see errno(3).
    package let code: Int32
    /// The call, by its manual page's name.
    package let operation: String
    /// The file or address it was about.
    package let subject: String?
    /// What the system says the code means.
    package let reason: String

    package init(code: Int32, operation: String, subject: String? = nil, reason: String) {
        self.code = code
        self.operation = operation
        self.subject = subject
        self.reason = reason
    }

    package var description: String {
        if let subject { return "\(subject): \(reason) (\(operation))" }
        return "\(reason) (\(operation))"
    }
}
