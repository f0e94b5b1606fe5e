// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import Testing

@Suite struct PreconditionTests {
    static let modified = Timestamp(seconds: 784_111_777)
    static let current = CurrentRepresentation(entityTag: EntityTag(opaque: "a"), lastModified: modified)
    static let same = HTTPDate.format(modified)
    static let earlier = HTTPDate.format(modified.advanced(bySeconds: -1))

    static func fields(_ pairs: [(String, String)]) -> HTTPFields {
        HTTPFields(pairs.map { .init(name: $0.0, value: $0.1) })
    }

    @Test(arguments: [
        ("GET", "If-Match", "\"a\"", Preconditions.Outcome.proceed), ("GET", "If-Match", "\"b\"", .failed),
        ("PUT", "If-Match", "\"b\", \"a\"", .proceed), ("PUT", "If-Match", "\"b,a\"", .failed),
        ("PUT", "If-Match", "W/\"a\"", .failed), ("PUT", "If-Match", "*", .proceed),
        ("PUT", "If-Match", "a", .proceed), ("GET", "If-None-Match", "W/\"a\"", .notModified),
        ("HEAD", "If-None-Match", "\"a\"", .notModified), ("PUT", "If-None-Match", "*", .failed),
        ("PUT", "If-None-Match", "\"b\"", .proceed), ("GET", "If-Modified-Since", same, .notModified),
        ("GET", "If-Modified-Since", earlier, .proceed), ("PUT", "If-Modified-Since", same, .proceed),
        ("GET", "If-Modified-Since", "nonsense", .proceed), ("PUT", "If-Unmodified-Since", same, .proceed),
        ("PUT", "If-Unmodified-Since", earlier, .failed), ("PUT", "If-Unmodified-Since", "x", .proceed),
    ])
    func oneConditionOnAnExistingObject(
        method: String,
        name: String,
        value: String,
        expected: Preconditions.Outcome
    ) {
        let outcome = Preconditions.evaluate(
            method: method,
            fields: Self.fields([(name, value)]),
            current: Self.current
        )
        #expect(outcome == expected)
    }

    @Test(arguments: [
        ("If-Match", "*", Preconditions.Outcome.failed), ("If-Match", "\"a\"", .failed),
        ("If-None-Match", "*", .proceed),
        ("If-None-Match", "\"a\"", .proceed), ("If-Unmodified-Since", same, .proceed),
    ])
    func oneConditionOnAMissingObject(name: String, value: String, expected: Preconditions.Outcome) {
        #expect(Preconditions.evaluate(method: "PUT", fields: Self.fields([(name, value)]), current: nil) == expected)
    }

    @Test func tagsTakePrecedenceOverDates() {
        let match = Self.fields([("If-Match", "\"a\""), ("If-Unmodified-Since", Self.earlier)])
        #expect(Preconditions.evaluate(method: "PUT", fields: match, current: Self.current) == .proceed)
        let none = Self.fields([("If-None-Match", "\"b\""), ("If-Modified-Since", Self.same)])
        #expect(Preconditions.evaluate(method: "GET", fields: none, current: Self.current) == .proceed)
        let both = Self.fields([("If-Match", "\"b\""), ("If-None-Match", "\"a\"")])
        #expect(Preconditions.evaluate(method: "GET", fields: both, current: Self.current) == .failed)
    }

    @Test(arguments: [
        ("\"a\"", 10.0, true), ("\"b\"", 10, false), ("W/\"a\"", 10, false), (same, 10, true), (same, 0.5, false),
        (earlier, 10, false), ("nonsense", 10, false),
    ])
    func rangesAreAllowedOnlyForTheSameStrongValidator(value: String, age: Double, expected: Bool) {
        let allowed = Preconditions.allowsRange(
            fields: Self.fields([("If-Range", value)]),
            current: Self.current,
            now: Self.modified.advanced(bySeconds: age)
        )
        #expect(allowed == expected)
    }
}
