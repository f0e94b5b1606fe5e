// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Policy

/// What a person may wish of the upload of one file, by the name of its extended attribute behind `user.moorage.`.
enum UploadWish: String {
    /// Nothing is sent before: a date, or `+TIME` from now.
    case notBefore = "not-before"
    /// When it should be at the remote, in the same form.
    case deadline
    /// Higher goes first, -100 to 100.
    case priority
    /// `1`: it has time.
    case discretionary
}

extension JournalNode.Schedule {
    /// A wish as text; nil when there is none.
    func text(of wish: UploadWish) -> String? {
        switch wish {
        case .notBefore: notBefore?.rfc3339
        case .deadline: deadline?.rfc3339
        case .priority: priority == 0 ? nil : String(priority)
        case .discretionary: isDiscretionary ? "1" : nil
        }
    }

    /// Takes in a wish; false when the text says none.
    ///
    /// An empty text takes it back.
    mutating func set(_ wish: UploadWish, _ text: String, now: Timestamp) -> Bool {
        let time = TimeRule(parsing: text)?.moment(changed: now)
        switch wish {
        case .notBefore where text.isEmpty || time != nil: notBefore = time
        case .deadline where text.isEmpty || time != nil: deadline = time
        case .priority:
            guard let number = text.isEmpty ? 0 : Int64(text), (-100...100).contains(number) else { return false }
            priority = number
        case .discretionary where ["", "0", "1"].contains(text): isDiscretionary = text == "1"
        case .notBefore, .deadline, .discretionary: return false
        }
        return true
    }
}
