// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import HTTPWire

/// The metadata of an object within a listing: an extension of S3 that MinIO made.
///
/// A request with `list-type=2&metadata=true` gets a `UserMetadata` in each `Contents`, with an element for each field
/// that a HEAD would have, named as the field is. Other servers ignore the parameter or refuse it. MinIO leaves the
/// element out for objects that the caller may not read, and where it is empty: without it nothing is known.
package enum ListedMetadata {
    /// The fields of a `UserMetadata` element; nil when it is of no known form, so that it tells nothing.
    static func read(_ element: XMLElement) -> HTTPFields? {
        var fields = HTTPFields()
        for child in element.children {
            // Some releases of MinIO wrote names and values as elements of their own.
            let isPair = child.name == "Items"
            guard let name = isPair ? child["Key"] : child.name, let value = isPair ? child["Value"] : child.text else {
                return nil
            }
            fields.append(name, value)
        }
        return fields
    }

    static func write(_ fields: HTTPFields, to writer: inout XMLWriter) {
        writer.element("UserMetadata") { writer in
            for field in fields.fields { writer.text(field.name, field.value) }
        }
    }

    /// Whether fields can be written: names of fields may have characters that those of elements cannot have, and XML
    /// has no way to write most control characters.
    package static func canHold(_ fields: HTTPFields) -> Bool {
        fields.fields.allSatisfy { isElementName($0.name) && $0.value.unicodeScalars.allSatisfy(isCharacter) }
    }

    private static func isElementName(_ name: String) -> Bool {
        guard let first = name.utf8.first, isLetter(first) else { return false }
        let marks = Set("-._".utf8)
        return name.utf8.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || marks.contains($0) }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }

    /// Section 2.2 of XML 1.0, without line ends.
    private static func isCharacter(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value == 0x09 || (scalar.value >= 0x20 && scalar.value != 0xFFFE && scalar.value != 0xFFFF)
    }
}
