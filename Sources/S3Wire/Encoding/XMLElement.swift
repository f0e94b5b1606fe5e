// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// An element of a small document: names without their prefix, attributes dropped, text of the element itself joined.
package struct XMLElement: Hashable, Sendable {
    package var name: String
    package var text: String
    package var children: [XMLElement]

    package init(name: String, text: String = "", children: [XMLElement] = []) {
        self.name = name
        self.text = text
        self.children = children
    }

    /// The text of the first child of that name, nil when there is none.
    package subscript(name: String) -> String? { children.first { $0.name == name }?.text }

    package func first(_ name: String) -> XMLElement? { children.first { $0.name == name } }

    package func all(_ name: String) -> [XMLElement] { children.filter { $0.name == name } }
}

/// Why a document is not accepted.
package struct XMLProblem: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}
