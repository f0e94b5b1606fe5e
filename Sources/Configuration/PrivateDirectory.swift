// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Folders that only their user may write to: whoever could, could put words in our mouth.
package enum PrivateDirectory {
    /// Creates the folder and its missing parents (mode 0700), then checks it.
    package static func prepare(_ path: String) throws(ConfigurationError) {
        do {
            try Files.makeDirectories(path)
        } catch {
            throw ConfigurationError(path, "cannot make this folder: \(error.reason)")
        }
        try check(path, user: geteuid())
    }

    /// Refuses a folder that another user owns, or that its group or all may write to.
    package static func check(_ path: String, user: UInt32) throws(ConfigurationError) {
        let status: FileStatus
        do {
            status = try FileDescriptor.open(path, O_RDONLY | O_DIRECTORY).status()
        } catch {
            throw ConfigurationError(path, "cannot use this folder: \(error.reason)")
        }
        guard status.uid == user else {
            throw ConfigurationError(path, "belongs to user \(status.uid), not to \(user); choose another folder")
        }
        guard status.mode & 0o022 == 0 else {
            throw ConfigurationError(path, "others may write to it; run chmod go-w on it")
        }
    }
}

/// The environment of this process.
package enum ProcessEnvironment {
    package static func all() -> [String: String] {
        var result: [String: String] = [:]
        var entry = environ
        while let pointer = entry.pointee {
            let text = String(cString: pointer)
            if let equals = text.firstIndex(of: "=") {
                result[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            entry += 1
        }
        return result
    }

    /// The value of a variable, nil when it is unset or empty.
    package static func value(_ name: String) -> String? {
        guard let pointer = getenv(name) else { return nil }
        let text = String(cString: pointer)
        return text.isEmpty ? nil : text
    }
}
