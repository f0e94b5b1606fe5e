// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The value of If-Match or If-None-Match: `*` or a list of entity tags.
package enum EntityTagCondition: Hashable, Sendable {
    case any
    case tags([EntityTag])

    /// Reads every line of a field; nil when the field is absent.
    ///
    /// Malformed elements match nothing.
    package init?(_ fields: HTTPFields, _ name: String) {
        let values = fields.values(name)
        guard !values.isEmpty else { return nil }
        if values.count == 1, trimmingOptionalWhitespace(values[0]) == "*" {
            self = .any
        } else {
            self = .tags(values.flatMap { Self.elements($0) }.compactMap { EntityTag(fieldValue: $0) })
        }
    }

    /// The elements of a list: commas within quotes belong to a tag.
    private static func elements(_ value: String) -> [String] {
        var elements: [[UInt8]] = [[]]
        var isQuoted = false
        for byte in value.utf8 {
            if byte == 0x22 { isQuoted.toggle() }
            if byte == 0x2C, !isQuoted { elements.append([]) } else { elements[elements.count - 1].append(byte) }
        }
        return elements.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// What a server holds for the target of a conditional request.
package struct CurrentRepresentation: Hashable, Sendable {
    package var entityTag: EntityTag?
    package var lastModified: Timestamp?

    package init(entityTag: EntityTag?, lastModified: Timestamp?) {
        self.entityTag = entityTag
        self.lastModified = lastModified
    }
}

/// A server's evaluation of conditional requests, in the order of RFC 9110, section 13.2.2.
package enum Preconditions {
    package enum Outcome: Hashable, Sendable {
        /// Perform the method.
        case proceed
        /// Answer 304.
        case notModified
        /// Answer 412.
        case failed
    }

    /// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since.
    ///
    /// `current` is nil when the target does not exist. Malformed dates are ignored.
    package static func evaluate(
        method: String,
        fields: HTTPFields,
        current: CurrentRepresentation?
    ) -> Outcome {
        let isRead = method == "GET" || method == "HEAD"
        if let condition = EntityTagCondition(fields, "if-match") {
            guard matches(condition, current, strongly: true) else { return .failed }
        } else if let limit = date(fields, "if-unmodified-since"), let modified = current?.lastModified {
            guard modified.seconds <= limit.seconds else { return .failed }
        }
        if let condition = EntityTagCondition(fields, "if-none-match") {
            return matches(condition, current, strongly: false) ? (isRead ? .notModified : .failed) : .proceed
        }
        if isRead, let limit = date(fields, "if-modified-since"), let modified = current?.lastModified {
            return modified.seconds <= limit.seconds ? .notModified : .proceed
        }
        return .proceed
    }

    /// Whether a Range field is to be honoured: If-Range is absent or true (section 13.1.5).
    ///
    /// `now` is the server's clock: a modification time in the same second is no strong validator.
    package static func allowsRange(fields: HTTPFields, current: CurrentRepresentation, now: Timestamp) -> Bool {
        guard let value = fields["if-range"].map({ trimmingOptionalWhitespace($0) }) else { return true }
        if value.hasPrefix("\"") || value.hasPrefix("W/") {
            guard let tag = EntityTag(fieldValue: value), let currentTag = current.entityTag else { return false }
            return tag.stronglyMatches(currentTag)
        }
        guard let date = HTTPDate.parse(value), let modified = current.lastModified else { return false }
        return date.seconds == modified.seconds && now.seconds - modified.seconds >= 1
    }

    private static func matches(
        _ condition: EntityTagCondition,
        _ current: CurrentRepresentation?,
        strongly: Bool
    ) -> Bool {
        guard let current else { return false }
        switch condition {
        case .any:
            return true
        case .tags(let tags):
            guard let mine = current.entityTag else { return false }
            return tags.contains { strongly ? $0.stronglyMatches(mine) : $0.weaklyMatches(mine) }
        }
    }

    private static func date(_ fields: HTTPFields, _ name: String) -> Timestamp? {
        fields[name].flatMap { HTTPDate.parse($0) }
    }
}
