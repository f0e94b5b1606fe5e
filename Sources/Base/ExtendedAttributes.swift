// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The extended attributes of a file or folder, all in one text: the one that travels with its object.
///
/// It is what s3fs keeps in the metadata `xattr`: `{"NAME":"VALUE in base64",…}`, percent-encoded. Who carries it along
/// need not understand it, so what others wrote stays as they wrote it until one of the attributes is changed here.
package struct ExtendedAttributes: Hashable, Sendable {
    /// Visible ASCII without blanks; empty when there are none.
    package let text: String

    package static let none = ExtendedAttributes(unchecked: "")

    /// The most that a text from elsewhere may have; servers allow 2 KiB or little more.
    private static let limit = 16_384

    private init(unchecked text: String) { self.text = text }

    /// Takes a text from elsewhere; nil when it is none that could be sent again as it is.
    package init?(text: String) {
        guard text.utf8.count <= Self.limit, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        self.init(unchecked: text)
    }

    package var isEmpty: Bool { text.isEmpty }
}
