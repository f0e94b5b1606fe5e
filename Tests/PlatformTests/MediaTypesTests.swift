// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Platform
import TestSupport
import Testing

@Suite struct MediaTypesTests {
    @Test(
        arguments: [
            ("page.html", "text/html"), ("d/e/PAGE.HTML", "text/html"), ("a.tar.gz", "application/gzip"),
            ("live.m3u8", "application/vnd.apple.mpegurl"), ("a.b.woff2", "font/woff2"), ("x.", nil), (".html", nil),
            ("d.html/x", nil), ("html", nil), ("", nil), ("a.html.", nil), ("a.nothing-known", nil),
        ] as [(String, String?)]
    )
    func theExtensionTells(path: String, type: String?) {
        #expect(MediaTypes(table: "").type(of: ObjectKey(path)) == type)
    }

    @Test func aTableAddsToWhatIsKnownAndChangesNothingOfIt() {
        let table = """
            # A comment
            application/x-own\t\tOWN own2   # not-this
            text/x-second own
            text/x-page html
            no-type a
            a/b/c d
            text/b@d e
            Application/Octet-Stream g
            /x f
            """
        let types = MediaTypes(table: table)
        #expect(types.type(of: ObjectKey("a.own")) == "application/x-own")
        #expect(types.type(of: ObjectKey("a.own2")) == "application/x-own")
        #expect(types.type(of: ObjectKey("a.html")) == "text/html")
        for name in ["a.not-this", "a.a", "a.d", "a.e", "a.f", "a.g"] {
            #expect(types.type(of: ObjectKey(name)) == nil)
        }
    }

    /// Whatever the table and the name are, a type is one that can be sent in a field.
    @Test func anyBytesGiveAFieldOrNothing() {
        var random = SeededGenerator.random("media types")
        for _ in 0..<2000 {
            let alphabet = Array("a/#.\t\n\r é\u{0}:;,\"".utf8)
            let bytes = (0..<random.below(80)).map { _ in random.pick(alphabet) ?? 0 }
            let types = MediaTypes(table: String(decoding: bytes, as: UTF8.self))
            let name = ObjectKey(bytes: [0x61, 0x2E] + (0..<random.below(4)).map { _ in random.pick(alphabet) ?? 0 })
            guard let type = types.type(of: name) else { continue }
            let isField = type.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && type.split(separator: "/").count == 2
            #expect(isField, "seed \(random.seed)")
        }
    }
}
