// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// A value to bind to a statement's parameter.
package enum Value: Hashable, Sendable {
    case null
    case integer(Int64)
    case text(String)
    case blob([UInt8])

    package static func integer(_ value: Bool) -> Value { .integer(value ? 1 : 0) }

    /// A path or name as a blob, so that it compares byte by byte.
    package static func key(_ value: ObjectKey) -> Value { .blob(value.bytes) }

    package static func key(_ value: ObjectKey?) -> Value { value.map { .blob($0.bytes) } ?? .null }

    package static func integer(_ value: Int64?) -> Value { value.map { .integer($0) } ?? .null }

    package static func text(_ value: String?) -> Value { value.map { .text($0) } ?? .null }

    /// A time as nanoseconds since 1970.
    package static func time(_ value: Timestamp?) -> Value { value.map { .integer($0.nanoseconds) } ?? .null }
}

extension Value: ExpressibleByIntegerLiteral {
    package init(integerLiteral value: Int64) { self = .integer(value) }
}
