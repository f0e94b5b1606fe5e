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

    @Test func keysCompareAsTheirBytesDo() {
        var generator = SystemRandomNumberGenerator()
        func random() -> [UInt8] {
            let count = Int.random(in: 0...4, using: &generator)
            return (0..<count).map { _ in [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &generator) ?? 0 }
        }
        for _ in 0..<5000 {
            let (left, right) = (random(), random())
            #expect((ObjectKey(bytes: left) < ObjectKey(bytes: right)) == left.lexicographicallyPrecedes(right))
            #expect((ObjectKey(bytes: left) == ObjectKey(bytes: right)) == (left == right))
            #expect(Set([ObjectKey(bytes: left), ObjectKey(bytes: right)]).count == Set([left, right]).count)
        }
    }

    @Test func invalidTextIsNoString() {
        #expect(ObjectKey(bytes: [0xFF]).validated == nil)
        #expect(ObjectKey("ok").validated == "ok")
    }
}
