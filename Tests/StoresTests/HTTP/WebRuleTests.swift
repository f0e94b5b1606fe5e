// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ObjectStore
import Testing

@testable import Stores

private let now = Timestamp(seconds: 1_700_000_000)

/// The fields of an answer given at `now` about a file changed `age` seconds earlier.
private func fields(tag: String? = nil, age: Int64? = nil, date: Bool = true) -> HTTPFields {
    var fields = HTTPFields()
    if let tag { fields.append("ETag", tag) }
    if let age { fields.append("Last-Modified", HTTPDate.format(Timestamp(seconds: now.seconds - age))) }
    if date { fields.append("Date", HTTPDate.format(now)) }
    return fields
}

@Suite struct VersionValidatorTests {
    private let tag = EntityTag(opaque: "x")

    @Test func strongTags() {
        #expect(VersionValidator(fields(tag: "\"x\"", age: 2)) == .entityTag(tag))
        #expect(VersionValidator(fields(tag: "\"x\"", age: 9_999)) == .entityTag(tag))
        // Without a time there is nothing to doubt it by.
        #expect(VersionValidator(fields(tag: "\"x\"")) == .entityTag(tag))
        #expect(VersionValidator(fields(tag: "\"x\"", age: 0, date: false)) == .entityTag(tag))
    }

    @Test(arguments: [0, 1, -1, -3_600])
    func aTagOfThisSecondOrTheFutureIsWeak(age: Int64) {
        #expect(VersionValidator(fields(tag: "\"x\"", age: age)) == .weak)
        #expect(VersionValidator(fields(age: age)) == .weak)
    }

    @Test func datesAreStrongWhenOldAndAlone() {
        let then = Timestamp(seconds: now.seconds - 2)
        #expect(VersionValidator(fields(age: 2)) == .modified(then))
        #expect(VersionValidator(fields(age: 2, date: false)) == .weak)
        // A date must not be sent where there is a tag, however weak or malformed.
        #expect(VersionValidator(fields(tag: "W/\"x\"", age: 9_999)) == .weak)
        #expect(VersionValidator(fields(tag: "\"\"", age: 9_999)) == .weak)
        #expect(VersionValidator(fields()) == .weak)
    }

    @Test func onlyStrongValidatorsGoIntoIfRange() {
        #expect(VersionValidator.ifRange(ObjectVersion(entityTag: tag, size: 1)) == "\"x\"")
        #expect(
            VersionValidator.ifRange(ObjectVersion(entityTag: EntityTag(opaque: "x", isWeak: true), size: 1)) == nil
        )
        #expect(VersionValidator.ifRange(ObjectVersion(entityTag: nil, size: 1)) == nil)
        #expect(
            VersionValidator.ifRange(ObjectVersion(entityTag: nil, size: 1, lastModified: now))
                == "Tue, 14 Nov 2023 22:13:20 GMT"
        )
    }

    @Test func observationsAgreeOnEverythingThatBothTell() {
        var one = fields(tag: "W/\"x\"", age: 1)
        one.append("Content-Length", "5")
        #expect(Observation(one).agrees(with: Observation(fields(tag: "W/\"x\"", age: 1))))
        #expect(!Observation(one).agrees(with: Observation(fields(tag: "W/\"x\"", age: 2))))
        // Apache marks a tag as weak while the file is young.
        #expect(Observation(one).agrees(with: Observation(fields(tag: "\"x\"", age: 1))))
        #expect(!Observation(one).agrees(with: Observation(fields(tag: "W/\"y\"", age: 1))))
        #expect(!Observation(one).agrees(with: Observation(fields(age: 1))))
        #expect(!Observation(one).agrees(with: Observation(one, size: 6)))
    }

    @Test func whatWasSeenYoungIsNotShownAnyMoreOnceItHasAged() {
        func seen(after seconds: Int) -> Observation {
            var fields = HTTPFields()
            fields.append("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
            fields.append("Date", "Sat, 21 Nov 2026 10:00:0\(seconds) GMT")
            return Observation(fields, size: 5)
        }
        #expect(seen(after: 0).isStillShown(by: seen(after: 1)))
        #expect(!seen(after: 1).isStillShown(by: seen(after: 2)))
        #expect(seen(after: 2).isStillShown(by: seen(after: 9)))
        #expect(seen(after: 2).agrees(with: seen(after: 0)))
    }
}

@Suite struct WebURLTests {
    @Test(
        arguments: [
            ("b", "http://h/a/b"), ("/b", "http://h/b"), ("../b", "http://h/b"), ("../../../b", "http://h/b"),
            ("./", "http://h/a/"), ("", "http://h/a/c?q"), ("#x", "http://h/a/c?q"), ("?r", "http://h/a/c?r"),
            ("//o/x", "http://o/x"), ("HTTPS://O:443/x#y", "https://o/x"), ("http://o", "http://o/"),
            ("b:c/d", nil), ("ftp://o/", nil), ("http://u@o/", nil), ("http://u:p@o/", nil), ("a b", nil),
            ("\r\nx", nil),
            ("http://o\\x/", nil), ("http:///x", nil), ("a/b:c", "http://h/a/a/b:c"),
        ] as [(String, String?)]
    )
    func referencesAreResolved(reference: String, expected: String?) throws {
        let base = try #require(WebURL("http://h/a/c?q"))
        #expect(base.resolving(reference)?.text == expected)
    }

    @Test func hostsAndOrigins() throws {
        let plain = try #require(WebURL("http://EXAMPLE.org:80/x"))
        #expect(plain.host == "example.org" && plain.text == "http://example.org/x")
        let other = try #require(WebURL("https://[::1]:8443/"))
        #expect(other.host == "::1" && other.origin.authority == "[::1]:8443")
        #expect(plain.origin != WebURL("http://example.org:8080/")?.origin)
        #expect(plain.origin != WebURL("https://example.org/")?.origin)
    }
}

@Suite struct RedirectionTests {
    private let url = WebURL("https://h/a/b").unsafelyUnwrapped

    private func judge(_ status: Int, _ location: String?, _ method: String = "GET") -> Redirection {
        Redirection.judge(status: status, location: location, method: method, url: url)
    }

    @Test func redirectsAreFollowedWhereTheyMayBe() throws {
        let target = try #require(WebURL("https://other/x"))
        for status in [301, 302, 303, 307, 308] { #expect(judge(status, "https://other/x") == .follow(target)) }
        #expect(judge(307, "https://other/x", "PROPFIND") == .follow(target))
        #expect(judge(301, "b/") == .follow(try #require(WebURL("https://h/a/b/"))))
        for status in [200, 206, 300, 304, 305, 404] { #expect(judge(status, "x") == .none) }
    }

    @Test func othersAreRefused() {
        for (status, location, method) in [
            (302, "http://h/a/b", "GET"), (301, nil, "GET"), (301, "ftp://h/", "GET"), (302, "https://u:p@h/", "GET"),
            (301, "https://other/x", "PROPFIND"), (303, "https://other/x", "PROPFIND"),
        ] as [(Int, String?, String)] {
            guard case .refuse = judge(status, location, method) else {
                Issue.record("\(status) to \(location ?? "nowhere") after \(method) was not refused")
                continue
            }
        }
    }
}

@Suite struct NetrcTests {
    private let text = """
        # comment with machine no.example
        machine Files.example login alice password "se cr\\"et"
        machine second.example
          login bob
          account x
          password b#b
        macdef init
        machine evil.example login mallory

        machine open.example login anon
        default login any password one
        """

    @Test(
        arguments: [
            ("files.EXAMPLE", .basic(user: "alice", password: "se cr\"et")),
            ("second.example", .basic(user: "bob", password: "b#b")),
            ("open.example", .basic(user: "anon", password: "")),
            ("evil.example", .basic(user: "any", password: "one")),
            ("no.example", .basic(user: "any", password: "one")),
        ] as [(String, HTTPCredentials)]
    )
    func loginsAreFound(host: String, expected: HTTPCredentials) {
        #expect(Netrc(text: text).credentials(host: host) == expected)
    }

    @Test(arguments: ["", "machine", "machine h", "login a password b", "machine h password x"])
    func filesWithoutALoginGiveNone(text: String) {
        #expect(Netrc(text: text).credentials(host: "h") == nil)
    }

    @Test func fieldValues() {
        #expect(HTTPCredentials.basic(user: "a", password: "b:c").fieldValue == "Basic YTpiOmM=")
        #expect(HTTPCredentials.bearer(token: "t").fieldValue == "Bearer t")
    }
}
