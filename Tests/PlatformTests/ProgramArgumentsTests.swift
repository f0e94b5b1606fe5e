// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import Platform

@Suite struct ProgramArgumentsTests {
    @Test(arguments: [
        ("", []), ("a\0", ["a"]), ("a\0\0b c\0", ["a", "", "b c"]), ("a\0b\0\0", ["a", "b", ""]), ("a\0b", ["a", "b"]),
    ])
    func eachEndsWithAByteOfZero(text: String, words: [String]) {
        #expect(ProgramArguments.parse(Array(text.utf8)) == words.map { Array($0.utf8) })
    }

    @Test func thisProgramHasItsOwn() {
        #expect(ProgramArguments.all() == CommandLine.arguments)
        #expect(ProgramArguments.bytes() == CommandLine.arguments.map { Array($0.utf8) })
    }
}
