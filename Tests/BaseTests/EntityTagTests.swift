// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@Suite struct EntityTagTests {
    @Test(arguments: [
        ("\"abc\"", "abc", false), ("W/\"abc\"", "abc", true), ("abc", "abc", false), (" \"a-2\"\t", "a-2", false),
    ])
    func reads(field: String, opaque: String, weak: Bool) {
        #expect(EntityTag(fieldValue: field) == EntityTag(opaque: opaque, isWeak: weak))
    }

    @Test(arguments: ["", "\"\"", "\"a b\"", "\"a\"b\"", "\"a\u{7F}\""])
    func refuses(field: String) {
        #expect(EntityTag(fieldValue: field) == nil)
    }

    @Test func aWeakTagNeverMatchesStrongly() {
        let weak = EntityTag(opaque: "a", isWeak: true)
        #expect(!weak.stronglyMatches(weak))
        #expect(weak.weaklyMatches(EntityTag(opaque: "a")))
    }

    @Test func versionsAreToldApartByTagFirst() {
        let one = ObjectVersion(entityTag: EntityTag(opaque: "a"), size: 1, lastModified: Timestamp(seconds: 1))
        let later = ObjectVersion(entityTag: EntityTag(opaque: "a"), size: 1, lastModified: Timestamp(seconds: 2))
        let other = ObjectVersion(entityTag: EntityTag(opaque: "b"), size: 1, lastModified: Timestamp(seconds: 1))
        let untagged = ObjectVersion(entityTag: nil, size: 1, lastModified: Timestamp(seconds: 1))
        #expect(one.isSame(as: later))
        #expect(!one.isSame(as: other))
        #expect(!one.isSame(as: untagged))
    }
}
