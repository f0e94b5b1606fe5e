// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// An access key with its secret; its text forms never show the secret.
package struct SigningCredentials: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    package let accessKeyID: String
    package let secretAccessKey: String
    /// Only with temporary credentials.
    package let sessionToken: String?

    package init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }

    package var description: String { "access key \(accessKeyID)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: ["accessKeyID": accessKeyID]) }
}
