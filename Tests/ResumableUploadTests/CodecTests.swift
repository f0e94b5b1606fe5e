// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import HTTPWire
import ResumableUpload
import Testing

@Suite struct CodecTests {
    private func fields(_ pairs: KeyValuePairs<String, String>) -> HTTPFields {
        HTTPFields(pairs.map { HTTPFields.Field(name: $0.key, value: $0.value) })
    }

    @Test func versionsAreOrderedWithTheFinalFormOnTop() {
        #expect(InteropVersion.allCases.sorted() == [.v3, .v4, .v5, .v6, .v7, .v8, .v9, .final])
        #expect(Set(InteropVersion.discoveryOrder) == Set(InteropVersion.allCases))
        #expect(InteropVersion.v6.ageKey == "expires" && InteropVersion.v7.ageKey == "max-age")
    }

    @Test(arguments: InteropVersion.allCases)
    func aServersWordsAreUnderstoodByTheClientOfThatVersion(version: InteropVersion) {
        for isComplete in [false, true] {
            let limits = UploadLimits(maxSize: 900, maxAppendSize: 70, maxAge: 60)
            let state = UploadReply.State(offset: 17, isComplete: isComplete, length: 99, limits: limits)
            let answer = UploadAnswer(
                status: 204,
                fields: UploadReply.offset(version, state: state),
                version: version
            )
            #expect(answer.offset == 17)
            #expect(answer.isComplete == isComplete)
            #expect(answer.length == (version >= .v6 ? 99 : nil))
            #expect(answer.limits == (version >= .v6 ? limits : nil))
        }
        var final = fields(["ETag": "\"x\""])
        UploadReply.markFinal(&final, version: version, offset: 5)
        #expect(UploadAnswer(status: 200, fields: final, version: version).isComplete == true)
        let announcement = UploadReply.announcement(version, location: "/u", limits: UploadLimits())
        let interim = UploadAnswer(status: 104, fields: announcement, version: version)
        #expect(interim.isInterim(version: version))
        #expect(interim.location == "/u" && interim.offset == nil)
        for other in InteropVersion.allCases where other != version {
            #expect(!interim.isInterim(version: other))
        }
    }

    @Test func versionThreeInvertsTheField() {
        var message = HTTPFields()
        UploadProtocol.setCompletion(true, version: .v3, in: &message)
        #expect(message == fields(["Upload-Incomplete": "?0"]))
        #expect(UploadProtocol.completion(message, version: .v3) == true)
        #expect(UploadProtocol.completion(message, version: .v4) == nil)
    }

    @Test func upToVersionSixEitherFieldCounts() {
        let wrong = fields(["Upload-Incomplete": "?0"])
        #expect(UploadAnswer(status: 200, fields: wrong, version: .v6).isComplete == true)
        #expect(UploadAnswer(status: 200, fields: wrong, version: .v7).isComplete == nil)
        #expect(UploadAnswer(status: 200, fields: fields(["Upload-Complete": "?1"]), version: .v3).isComplete == true)
        let contradiction = fields(["Upload-Complete": "?1", "Upload-Incomplete": "?1"])
        #expect(UploadAnswer(status: 200, fields: contradiction, version: .v5).isComplete == nil)
    }

    @Test func badLimitsAreIgnoredWholeAndUnknownKeysAlone() {
        #expect(UploadLimits(fields(["Upload-Limit": "max-size=5, colour=red"]))?.maxSize == 5)
        #expect(UploadLimits(fields(["Upload-Limit": "max-size=5, min-size=?1"])) == nil)
        #expect(UploadLimits(fields(["Upload-Limit": "max-size=-5"])) == nil)
        #expect(UploadLimits(fields(["Upload-Limit": "max-size=5,"])) == nil)
        #expect(UploadLimits(fields([:])) == nil)
        #expect(UploadLimits(fields(["Upload-Limit": "expires=7"]))?.maxAge == 7)
        #expect(UploadLimits().fieldValue(version: .v9) == "min-size=0")
    }

    @Test func problemDocumentsAreReadBack() {
        let body = ProblemDocument.body(.mismatchingOffset, members: [("expected-offset", 12), ("provided-offset", 3)])
        let type = fields(["Content-Type": "application/problem+json"])
        let answer = UploadAnswer(status: 409, fields: type, body: body, version: .v9)
        #expect(answer.problem == .mismatchingOffset)
        #expect(answer.offset == 12)
        #expect(UploadAnswer(status: 409, fields: HTTPFields(), body: body, version: .v9).offset == nil)
    }

    @Test func requestsAreToldApart() {
        #expect(UploadRequestKind.ofTarget(fields([:])) == .plain)
        #expect(UploadRequestKind.ofTarget(fields(["Upload-Complete": "?1"])) == .resumable(.final))
        let version = "Upload-Draft-Interop-Version"
        #expect(UploadRequestKind.ofTarget(fields([version: "6"])) == .plain)
        #expect(UploadRequestKind.ofTarget(fields([version: "6", "Upload-Complete": "?0"])) == .resumable(.v6))
        #expect(UploadRequestKind.ofTarget(fields([version: "3", "Upload-Incomplete": "?0"])) == .resumable(.v3))
        #expect(UploadRequestKind.ofTarget(fields([version: "6", "Upload-Incomplete": "?0"])) == .plain)
        for unknown in ["2", "10", "0", "9, 8", "x"] {
            #expect(
                UploadRequestKind.ofTarget(fields([version: unknown, "Upload-Complete": "?0"])) == .unknownVersion,
                "\(unknown)"
            )
        }
    }

    @Test func appendsAreReadStrictly() {
        let good = fields(["Upload-Offset": "5", "Upload-Complete": "?1"])
        #expect(UploadRequestFields(append: good, version: .v9)?.offset == 5)
        #expect(UploadRequestFields(append: fields(["Upload-Offset": "5"]), version: .v4) == nil)
        #expect(UploadRequestFields(append: fields(["Upload-Offset": "5"]), version: .v3)?.completes == true)
        #expect(
            UploadRequestFields(append: fields(["Upload-Offset": "-5", "Upload-Complete": "?1"]), version: .v9) == nil
        )
        #expect(UploadRequestFields(creation: fields(["Upload-Complete": "1"]), version: .v9) == nil)
        #expect(!UploadRequestFields.hasMediaType(HTTPFields(), version: .v6))
        #expect(UploadRequestFields.hasMediaType(HTTPFields(), version: .v5))
        let typed = fields(["Content-Type": "Application/Partial-Upload; x=1"])
        #expect(UploadRequestFields.hasMediaType(typed, version: .v9))
    }

    @Test(arguments: [
        ("/u/1", "http://a:9/b/k?x", "http://a:9/u/1"), ("http://A:80/u", "http://a/b", "http://A:80/u"),
        ("u", "http://a/b/k", "http://a/b/u"), ("//a/u", "http://a/b", "http://a/u"),
        ("http://b/u", "http://a/b", nil), ("https://a/u", "http://a/b", nil), ("http://a@b/u", "http://a/b", nil),
        ("//b/u", "http://a/b", nil), ("javascript:x", "http://a/b", nil), ("/a b", "http://a/b", nil),
        ("/u#f", "http://a/b", "http://a/u"), ("", "http://a/b", nil), ("u?x=:", "https://a", "https://a/u?x=:"),
    ])
    func locationsStayWithinTheirOrigin(location: String, base: String, expected: String?) {
        #expect(UploadURL.resolve(location, against: base) == expected)
    }
}
