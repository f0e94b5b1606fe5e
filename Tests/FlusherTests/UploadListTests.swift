// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Control
import Flusher
import Journal
import Testing

@Suite struct UploadListTests {
    private static let count = 1100

    /// All pages of a list; `between` is called after the first.
    private func list(
        _ client: ControlClient,
        _ selection: UploadSelection = UploadSelection(),
        between: () throws -> Void = {}
    ) throws -> [[String]] {
        var pages: [[String]] = []
        var page: UploadPage? = UploadPage()
        while let asked = page {
            let reply = try client.call(.uploads(selection: selection, page: asked))
            guard case .uploads(let uploads, let next) = reply else { throw ControlError.malformed("\(reply)") }
            pages.append(uploads.map(\.path))
            page = next.map { UploadPage(after: $0) }
            if pages.count == 1 { try between() }
        }
        return pages
    }

    @Test func aLongListIsToldInPages() throws {
        let fixture = try FlusherFixture(store: FakeStore(), quietPeriod: 3600)
        defer { fixture.remove() }
        for number in 0..<Self.count { try fixture.write("folder-\(number % 3)/\(number)", []) }
        let client = try fixture.start()
        let names = try fixture.pending().map(\.path.string)
        try #require(names.count == Self.count)

        let pages = try list(client)
        #expect(pages.count == 2 && Array(pages.joined()) == names)
        let below = try list(client, UploadSelection(paths: ["folder-1"]))
        #expect(Array(below.joined()) == names.filter { $0.hasPrefix("folder-1/") })

        // What is remote, or given up, before the rest is asked for does not change what the rest is.
        let rest = try list(client) {
            for node in try fixture.pending().prefix(1000) { #expect(try fixture.journal.cancel(node.id)) }
        }
        #expect(Array(rest.joined()) == names)
        for wrong in ["", "x", "\(fixture.description.id):1.2", "\(fixture.description.id):1.2.3:4"] {
            let page = UploadPage(after: wrong)
            #expect(throws: ControlError.self) {
                try client.call(.uploads(selection: UploadSelection(), page: page))
            }
        }
        try fixture.stop(client)
    }

    @Test func aVerbOnVeryManyTellsHowManyAndTheFirst() throws {
        let fixture = try FlusherFixture(store: FakeStore(), quietPeriod: 3600)
        defer { fixture.remove() }
        for number in 0..<Self.count { try fixture.write("\(number)", []) }
        let client = try fixture.start()
        let rows = try fixture.pending()
        for (verb, isPaused) in [(UploadVerb.pause, true), (.resume, false), (.cancel, false)] {
            let reply = try client.call(.change(verb: verb, selection: UploadSelection()))
            guard case .changed(let uploads, let refused, _, let count, _) = reply else {
                throw ControlError.malformed("\(reply)")
            }
            #expect(count == Self.count && refused.isEmpty)
            #expect(uploads.map(\.path) == rows.prefix(1000).map(\.path.string))
            if verb != .cancel { #expect(uploads.allSatisfy { ($0.state == .paused) == isPaused }) }
        }
        #expect(try fixture.pending().isEmpty)
        try fixture.stop(client)
    }

    @Test func aPageOfLongPathsIsShort() throws {
        let fixture = try FlusherFixture(store: FakeStore(), quietPeriod: 3600)
        defer { fixture.remove() }
        let folder = (0..<4).map { _ in String(repeating: "\u{1}", count: 240) }.joined(separator: "/")
        for number in 0..<1000 { try fixture.write("\(folder)/\(number)", []) }
        for number in 0..<300 { try fixture.write("\(folder)-\(number)/x", []) }
        let client = try fixture.start()
        let names = try fixture.pending().map(\.path.string)
        let pages = try list(client)
        #expect(pages.count > 1 && Array(pages.joined()) == names)
        try fixture.stop(client)
    }
}
