// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A program and its arguments as one line of the configuration file has them.
///
/// No shell reads it: words are separated by spaces, '...' and "..." keep spaces in a word, a backslash outside of '...'
/// takes the next character as it is. Nothing else has a meaning.
package enum ArgumentWords {
    /// The words; nil when a quote is not closed, or a backslash is the last character.
    package static func split(_ text: String) -> [String]? {
        var words: [String] = []
        var word: String?
        var quote: Character?
        var isEscaped = false
        for character in text {
            if isEscaped {
                word = (word ?? "") + String(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if let open = quote {
                if character == open { quote = nil } else { word = (word ?? "") + String(character) }
            } else if character == "'" || character == "\"" {
                quote = character
                word = word ?? ""
            } else if character == " " || character == "\t" {
                if let done = word { words.append(done) }
                word = nil
            } else {
                word = (word ?? "") + String(character)
            }
        }
        guard quote == nil, !isEscaped else { return nil }
        return word.map { words + [$0] } ?? words
    }

    /// The words of a program by its absolute path and its arguments; nil when it is none.
    static func program(_ text: String) -> [String]? {
        guard let words = split(text), let first = words.first, first.hasPrefix("/") else { return nil }
        return words
    }
}
