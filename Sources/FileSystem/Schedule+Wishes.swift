// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Journal

extension JournalNode.Schedule {
    /// What a person set for the file, as text; nil when it has no such setting of its own.
    func text(of name: OptionName) -> String? {
        switch name {
        case .notBefore: notBefore?.rfc3339
        case .deadline: deadline?.rfc3339
        case .priority: priority == 0 ? nil : String(priority)
        default: FileSettings(settings)[name]
        }
    }

    /// Takes in a wish.
    mutating func take(_ wish: UploadWish) {
        wish.apply(notBefore: &notBefore, deadline: &deadline, priority: &priority, settings: &settings)
    }
}
