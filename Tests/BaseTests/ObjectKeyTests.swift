// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@Suite struct ObjectKeyTests {
    @Test func normalFormsOfOneLetterAreTwoKeys() {
        let composed = ObjectKey("\u{E9}")
        let decomposed = ObjectKey("e\u{301}")
        #expect(composed.string == decomposed.string, "Swift's strings are equal, which is why keys are bytes")
        #expect(composed != decomposed)
    }

    @Test func parentAndNameSplitAtTheLastSlash() {
        #expect(ObjectKey("a/b/c").parent == ObjectKey("a/b"))
        #expect(ObjectKey("a/b/c").name == ObjectKey("c"))
        #expect(ObjectKey("a").parent.isRoot)
        #expect(ObjectKey.root.appending(ObjectKey("a")) == ObjectKey("a"))
    }

    @Test func insideNeedsAWholeSegment() {
        #expect(ObjectKey("a/b").isInside(ObjectKey("a")))
        #expect(!ObjectKey("ab").isInside(ObjectKey("a")))
        #expect(ObjectKey("a").isInside(ObjectKey("a")))
        #expect(ObjectKey("a").isInside(.root))
    }

    @Test func movingReplacesThePrefix() {
        #expect(ObjectKey("a/b/c").moved(from: ObjectKey("a"), to: ObjectKey("x/y")) == ObjectKey("x/y/b/c"))
        #expect(ObjectKey("a").moved(from: ObjectKey("a"), to: ObjectKey("x")) == ObjectKey("x"))
        #expect(ObjectKey("ab").moved(from: ObjectKey("a"), to: ObjectKey("x")) == nil)
        #expect(ObjectKey("b").moved(from: .root, to: ObjectKey("x")) == ObjectKey("x/b"))
    }

    @Test func invalidTextIsNoString() {
        #expect(ObjectKey(bytes: [0xFF]).validated == nil)
        #expect(ObjectKey("ok").validated == "ok")
    }
}
