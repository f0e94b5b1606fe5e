// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import HTTPWire
import TestSupport
import Testing

@Suite struct StructuredFieldsTests {
    private func fields(_ lines: String...) -> HTTPFields {
        HTTPFields(lines.map { HTTPFields.Field(name: "X", value: $0) })
    }

    @Test(arguments: [
        ("0", 0), (" 42 ", 42), ("-17", -17), ("007", 7), ("999999999999999", 999_999_999_999_999),
        ("5;a=1;b=\"x\";c", 5), ("5; a=?0", 5),
    ])
    func integersAreRead(text: String, value: Int64) {
        #expect(StructuredFields.integer(fields(text), "x") == value)
    }

    @Test(arguments: [
        "", " ", "1000000000000000", "1.0", "+1", "1 2", "1,2", "--1", "-", "a", "\"1\"", "1;", "1;A=1", "\t1", "1\t",
        "０", "1;a=", "?1", "0x10",
    ])
    func otherThingsAreNoIntegers(text: String) {
        #expect(StructuredFields.integer(fields(text), "x") == nil)
    }

    @Test func twoLinesAreNoItem() {
        #expect(StructuredFields.integer(fields("1", "1"), "x") == nil)
        #expect(StructuredFields.boolean(fields("?1", "?1"), "x") == nil)
    }

    @Test func booleansAreStrict() {
        #expect(StructuredFields.boolean(fields("?1"), "x") == true)
        #expect(StructuredFields.boolean(fields("?0;why=lost"), "x") == false)
        for text in ["1", "0", "true", "?2", "?", "?1 ?1", "?1x", "? 1"] {
            #expect(StructuredFields.boolean(fields(text), "x") == nil, "\(text)")
        }
    }

    @Test func dictionariesMixTypesAndIgnoreParameters() {
        let members = StructuredFields.dictionary(
            fields("a=1;q=2, b, c=(1 \"two\" x);z , d=:aGVsbG8=:", "a=3,e=-1.5,f=@17,g=%\"f%c3%bc\""),
            "x"
        )
        #expect(members?["a"]?.integer == 3)
        #expect(members?["b"] == .item(.boolean(true)))
        #expect(members?["c"] == .innerList([.integer(1), .string("two"), .token("x")]))
        #expect(members?["d"]?.bytes == Array("hello".utf8))
        #expect(members?["e"] == .item(.decimal(thousandths: -1500)))
        #expect(members?["f"] == .item(.date(17)))
        #expect(members?["g"] == .item(.displayString("fü")))
    }

    @Test func badDictionariesAreRefusedWhole() {
        for text in [
            "a=1,", "a=1,,b=2", "A=1", "a=1 b=2", "a=", "a=(1", "a=(1,2)", "a=\"x", "=1", "a=:*:", "a=(1\"x\")",
        ] {
            #expect(StructuredFields.dictionary(fields(text), "x") == nil, "\(text)")
        }
        #expect(StructuredFields.dictionary(fields(), "x") == [:])
    }

    @Test func whatIsWrittenIsReadBack() {
        var message = HTTPFields()
        message["X"] = StructuredFields.serialized([("max-size", 5), ("min-size", 0)])
        #expect(message["X"] == "max-size=5, min-size=0")
        #expect(StructuredFields.dictionary(message, "x")?["max-size"]?.integer == 5)
        for count in 0..<20 {
            let bytes = pattern(Int64(count))
            message["X"] = "d=" + StructuredFields.serialized(bytes)
            #expect(StructuredFields.dictionary(message, "x")?["d"]?.bytes == bytes)
        }
        #expect(StructuredFields.serialized(Int64.max) == "999999999999999")
    }

    @Test func lengthAndNumberOfMembersAreBounded() {
        #expect(StructuredFields.integer(fields("1;a=\"" + String(repeating: "x", count: 9000) + "\""), "x") == nil)
        let many = (0..<300).map { "k\($0)=1" }.joined(separator: ",")
        #expect(StructuredFields.dictionary(fields(many), "x") == nil)
    }

    @Test func arbitraryBytesNeverCrash() {
        var generator = SeededGenerator(seed: 9)
        let alphabet = Array("ab1?0-.,;=()\":%@* \t\\/+Z~".utf8)
        for _ in 0..<20_000 {
            let count = Int.random(in: 0..<12, using: &generator)
            let bytes = (0..<count).map { _ in alphabet[Int.random(in: 0..<alphabet.count, using: &generator)] }
            let text = String(decoding: bytes, as: UTF8.self)
            if let members = StructuredFields.dictionary(fields(text), "x") { #expect(members.count <= count) }
            _ = StructuredFields.item([text])
        }
    }
}
