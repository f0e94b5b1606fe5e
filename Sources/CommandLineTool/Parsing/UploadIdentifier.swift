// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The ids of uploads as `uploads list` prints them: eight hexadecimal digits of the volume, a dash, a number.
enum UploadIdentifier {
    /// Whether a word has the form of an id; a path of this form is named with `./` before it.
    static func isOne(_ word: String) -> Bool {
        let parts = word.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[1].isEmpty else { return false }
        return parts[0].utf8.count >= 8 && parts[0].allSatisfy { $0.isHexDigit } && parts[1].allSatisfy { $0.isNumber }
    }
}
