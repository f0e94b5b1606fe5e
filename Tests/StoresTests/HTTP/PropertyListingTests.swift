// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@testable import Stores

/// Answers to PROPFIND as the servers wrote them, cut down.
enum PropertyPages {
    static let apache = """
        <?xml version="1.0" encoding="utf-8"?>
        <D:multistatus xmlns:D="DAV:" xmlns:ns0="DAV:">
        <D:response xmlns:lp1="DAV:" xmlns:g0="DAV:"><D:href>/base/sub%20dir/</D:href>
        <D:propstat><D:prop><lp1:resourcetype><D:collection/></lp1:resourcetype></D:prop>
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
        <D:response xmlns:lp1="DAV:" xmlns:g0="DAV:"><D:href>/base/sub%20dir/d&amp;e/</D:href>
        <D:propstat><D:prop><lp1:resourcetype><D:collection/></lp1:resourcetype>
        <lp1:getlastmodified>Sun, 13 Sep 2020 12:26:40 GMT</lp1:getlastmodified>
        <lp1:getetag>"1000-5af3107a40000"</lp1:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
        <D:propstat><D:prop><g0:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
        </D:response>
        <D:response xmlns:lp1="DAV:"><D:href>/base/sub%20dir/a%20b%25.txt</D:href>
        <D:propstat><D:prop><lp1:resourcetype/><lp1:getcontentlength>5</lp1:getcontentlength>
        <lp1:getlastmodified>Sun, 13 Sep 2020 12:26:40 GMT</lp1:getlastmodified>
        <lp1:getetag>"5-5af3107a40000"</lp1:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
        </D:response></D:multistatus>
        """
    static let rclone = """
        <?xml version="1.0" encoding="UTF-8"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>/base/sub%20dir/</D:href>\
        <D:propstat><D:prop><D:resourcetype><D:collection xmlns:D="DAV:"/></D:resourcetype></D:prop>\
        <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response><D:response>\
        <D:href>/base/sub%20dir/a%20b%25.txt</D:href><D:propstat><D:prop><D:resourcetype></D:resourcetype>\
        <D:getcontentlength>5</D:getcontentlength><D:getlastmodified>Sun, 13 Sep 2020 12:26:40 GMT</D:getlastmodified>\
        <D:getetag>"5-5af3107a40000"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
        </D:response><D:response><D:href>/base/sub%20dir/d&amp;e/</D:href><D:propstat><D:prop><D:resourcetype>\
        <D:collection xmlns:D="DAV:"/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
        </D:response></D:multistatus>
        """

    /// An answer about the folder and one more resource.
    static func answer(
        about reference: String,
        _ properties: String = "<getcontentlength>1</getcontentlength>"
    ) -> String {
        """
        <multistatus xmlns="DAV:"><response><href>/base/sub%20dir/</href></response>
        <response><href>\(reference)</href><propstat><prop>\(properties)</prop></propstat></response></multistatus>
        """
    }
}

@Suite struct PropertyListingTests {
    private let folder = WebURL("http://h/base/sub%20dir/").unsafelyUnwrapped

    private func parse(_ text: String) throws -> [ListedName] {
        try PropertyListing.parse(Array(text.utf8), of: folder)
    }

    @Test(arguments: [PropertyPages.apache, PropertyPages.rclone])
    func namesSizesTimesAndTags(text: String) throws {
        let names = try parse(text).sorted { $0.name < $1.name }
        #expect(
            names == [
                ListedName(
                    name: ObjectKey("a b%.txt"),
                    isFolder: false,
                    size: 5,
                    modified: Timestamp(seconds: 1_600_000_000),
                    entityTag: EntityTag(opaque: "5-5af3107a40000")
                ), ListedName(name: ObjectKey("d&e"), isFolder: true),
            ]
        )
    }

    @Test func aWeakTagIsNone() throws {
        let text = PropertyPages.answer(about: "x", "<getetag>W/\"x\"</getetag>")
        #expect(try parse(text) == [ListedName(name: ObjectKey("x"), isFolder: false)])
    }

    @Test func aFolderWithoutItsSlashIsOne() throws {
        let text = PropertyPages.answer(
            about: "http://h/base/sub%20dir/x",
            "<resourcetype><collection/></resourcetype>"
        )
        #expect(try parse(text) == [ListedName(name: ObjectKey("x"), isFolder: true)])
    }

    @Test(arguments: [
        "/base/", "/", "/base/sub%20dir/a/b", "http://evil/base/sub%20dir/x", "..", "%2e%2e", "a%2fb", "x?y",
    ])
    func whatIsNoDirectChildIsLeftOut(reference: String) throws {
        #expect(try parse(PropertyPages.answer(about: reference)) == [])
    }

    @Test(arguments: [
        "<multistatus/>", "<multistatus><response><href>/other/</href></response></multistatus>", "<html/>", "junk", "",
        "<multistatus><response><href>http://behind/base/sub%20dir/x</href><propstat><prop/></propstat></response></multistatus>",
    ])
    func anAnswerAboutSomethingElseIsNoEmptyFolder(text: String) {
        #expect(throws: ListingProblem.self) { _ = try parse(text) }
    }
}
