// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import TestSupport
import Testing

@testable import Stores

/// The names as `d/` for folders and `f` for files.
private func brief(_ names: [ListedName]?) -> [String]? {
    names?.map { $0.name.string + ($0.isFolder ? "/" : "") }
}

private let folder = WebURL("http://h/base/sub%20dir/").unsafelyUnwrapped

/// Index pages as the servers of Debian 12 and rclone 1.75 wrote them, cut down.
enum Pages {
    static let nginx = """
        <html>
        <head><title>Index of /base/sub dir/</title></head>
        <body>
        <h1>Index of /base/sub dir/</h1><hr><pre><a href="../">../</a>
        <a href="d%26e/">d&amp;e/</a>                                               13-Sep-2020 12:26                   -
        <a href="a%20b%25.txt">a b%.txt</a>                                           13-Sep-2020 12:26                   5
        </pre><hr></body>
        </html>
        """
    static let apache = """
        <!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01//EN" "http://www.w3.org/TR/html4/strict.dtd">
        <html>
         <head>
          <title>Index of /base/sub dir</title>
         </head>
         <body>
        <h1>Index of /base/sub dir</h1>
        <pre>      <a href="?C=N;O=D">Name</a>   <a href="?C=M;O=A">Last modified</a> <hr>
        <a href="/base/">Parent Directory</a>   -
              <a href="a%20b%25.txt">a b%.txt</a>                2020-09-13 12:26    5
              <a href="d&amp;e/">d&amp;e/</a>                    2020-09-13 12:26    -
        <hr></pre>
        </body></html>
        """
    static let lighttpd = """
        <!DOCTYPE html>
        <html><head><title>Index of /base/sub dir/</title>
        <style type="text/css">a, a:active {text-decoration: none;}</style></head>
        <body><h2>Index of /base/sub dir/</h2><table><tbody>
        <tr class="d"><td class="n"><a href="../">..</a>/</td></tr>
        <tr class="d"><td class="n"><a href="d%26e/">d&#x26;e</a>/</td><td class="s">- &nbsp;</td></tr>
        <tr><td class="n"><a href="a%20b%25.txt">a b%.txt</a></td><td class="s">0.1K</td></tr>
        </tbody></table>
        <script type="text/javascript">if (a<b) document.write('<a href="script">x</a>');</script></body></html>
        """
    static let rclone = """
        <html><head><title>/base/sub dir</title></head><body>
        <h1><a href="/base/">/</a></h1><a href="?sort=name&order=asc" class="order">Name</a>
        <a href=".."><span class="goup">Go up</span></a>
        <a href="d&amp;e/">d&amp;e/</a><a class="zip" href="d&amp;e/?download=zip">zip</a>
        <a href="a%20b%25.txt">a b%.txt</a></body></html>
        """
    static let python = """
        <!DOCTYPE HTML><html><head><title>Directory listing for /base/sub dir/</title></head><body><ul>
        <li><a href='d%26e/'>d&amp;e/</a></li>
        <li><a href=a%20b%25.txt>a b%.txt</a></li></ul></body></html>
        """
    static let nginxJSON = """
        [
        { "name":"d&e", "type":"directory", "mtime":"Sun, 13 Sep 2020 12:26:40 GMT" },
        { "name":"pipe", "type":"other", "mtime":"Sun, 13 Sep 2020 12:26:40 GMT" },
        { "name":"a b%.txt", "type":"file", "mtime":"Sun, 13 Sep 2020 12:26:40 GMT", "size":5 }
        ]
        """
    static let caddyJSON = #"""
        [{"name":"d\u0026e/","size":4096,"url":"./d\u0026e/","mod_time":"2020-09-13T12:26:40Z","mode":2147484141,
          "is_dir":true,"is_symlink":false},
         {"name":"a b%.txt","size":5,"url":"./a%20b%25.txt","mod_time":"2020-09-13T12:26:40.123456789Z","mode":420,
          "is_dir":false,"is_symlink":false}]
        """#
}

@Suite struct HTMLIndexTests {
    @Test(arguments: [Pages.nginx, Pages.apache, Pages.lighttpd, Pages.rclone, Pages.python])
    func namesOfEachServersPage(page: String) throws {
        let names = try HTMLIndex.parse(Array(page.utf8), of: folder)
        #expect(brief(names)?.sorted() == ["a b%.txt", "d&e/"])
        #expect(names?.allSatisfy { $0.size == nil && $0.modified == nil && $0.entityTag == nil } == true)
    }

    @Test(arguments: [
        "<html><title>Welcome</title><a href='x'>x</a></html>", "", "<a href='x'>",
        "<title>/elsewhere/</title><a href=x>",
        "Index of / <a href='x'>x</a>",
    ])
    func otherPagesAreNoIndex(page: String) throws {
        #expect(try HTMLIndex.parse(Array(page.utf8), of: folder) == nil)
    }

    @Test(arguments: [
        "../", "..", "/", "/base/", "/base/sub%20dir/", "./", "?C=N;O=D", "#top", "x?download", "a/b", "deep/er/",
        "//evil/base/sub%20dir/x", "http://evil/base/sub%20dir/x", "https://h/base/sub%20dir/x", "javascript:x",
        "x/../..",
        "%2e%2e/", "%2e", "a%2Fb", "a%00b", "/base/sub%20dirx", "mailto:a@b", "../sub%20dir/../x",
        "http://u:p@h/base/sub%20dir/x",
        "%zz",
    ])
    func linksToAnythingButOwnNamesAreLeftOut(link: String) throws {
        let page = "<title>Index of /</title><a href=\"\(link)\">x</a><a href='kept'>y</a>"
        #expect(brief(try HTMLIndex.parse(Array(page.utf8), of: folder)) == ["kept"])
    }

    @Test(arguments: [
        ("./x", "x"), ("/base/sub%20dir/x/", "x/"), ("http://h/base/sub%20dir/x", "x"),
        ("HTTP://H:80/base/sub%20dir/x", "x"),
        ("a%3Fb", "a?b"), ("ü", "ü"), ("a b", "a b"), ("&quot;&#39;&#x3C;", "\"'<"), ("x/../y", "y"), ("a%5Cb", "a\\b"),
    ])
    func ownNamesInOtherSpellings(link: String, name: String) throws {
        let page = "<title>Index of /</title><A class=q HREF=\"\(link)\" >x</A>"
        #expect(brief(try HTMLIndex.parse(Array(page.utf8), of: folder)) == [name])
    }

    @Test func aNameLinkedTwiceIsOne() throws {
        let page = "<h1>Index of /</h1><a href='x'>x</a><!-- <a href='z'> --><a href='x/'>x</a>"
        #expect(brief(try HTMLIndex.parse(Array(page.utf8), of: folder)) == ["x/"])
    }
}

@Suite struct JSONIndexTests {
    @Test func nginxAndCaddyTellSizesAndTimes() throws {
        let time = Timestamp(seconds: 1_600_000_000)
        let file = ListedName(name: ObjectKey("a b%.txt"), isFolder: false, size: 5, modified: time)
        let nginx = try JSONIndex.parse(Array(Pages.nginxJSON.utf8))
        #expect(brief(nginx) == ["d&e/", "pipe", "a b%.txt"])
        #expect(nginx?.last == file)
        let caddy = try JSONIndex.parse(Array(Pages.caddyJSON.utf8))
        #expect(brief(caddy) == ["d&e/", "a b%.txt"])
        #expect(caddy?.last == file)
    }

    @Test func namesThatCannotBeAreLeftOut() throws {
        let bad = ["", ".", "..", "a/b", "a\\u0000b"].map {
            "{\"name\":\"\($0)\",\"type\":\"file\",\"mtime\":\"\",\"size\":1}"
        }
        #expect(try JSONIndex.parse(Array("[\(bad.joined(separator: ","))]".utf8)) == [])
    }

    @Test(arguments: ["{}", "[1]", "[{\"name\":\"a\"}]", "\"x\"", "null"])
    func otherDocumentsAreNoIndex(text: String) throws {
        #expect(try JSONIndex.parse(Array(text.utf8)) == nil)
    }

    @Test(arguments: [
        "", "[", "[1,]", "{\"a\":}", "[\"\\q\"]", "[\"\n\"]", "[1] 2", "tru", "[\"\\u12\"]", "[[[[[[[[[[1]]]]]]]]]]",
    ])
    func brokenDocumentsAreErrors(text: String) {
        #expect(throws: ListingProblem.self) { _ = try JSONIndex.parse(Array(text.utf8)) }
    }

    @Test func escapesAndSurrogates() throws {
        #expect(
            try JSONValue(Array(#""\"\\\/\b\f\n\r\t\u00fc\ud83d\ude00\ud83d""#.utf8)).bytes
                == Array("\"\\/\u{8}\u{C}\n\r\tü😀\u{FFFD}".utf8)
        )
    }
}

@Suite struct ListingMutationTests {
    /// Whatever comes of a damaged page: no crash, and never a name that a folder cannot hold.
    @Test func damagedPagesYieldOnlyPossibleNames() {
        let seed = UInt64.random(in: 0 ... .max)
        var generator = SeededGenerator(seed: seed)
        let pages = [
            Pages.nginx, Pages.apache, Pages.lighttpd, Pages.rclone, Pages.python, Pages.nginxJSON, Pages.caddyJSON,
            PropertyPages.apache, PropertyPages.rclone,
        ].map { Array($0.utf8) }
        let pieces = [
            "<", "\"", "../", "%2f", "%00", "&#0;", "&#x2f;", "/", "]]", "{", "\u{0}", "title>", "<a href=..",
        ]
        for _ in 0..<4_000 {
            var page = pages[Int(generator.next() % UInt64(pages.count))]
            for _ in 0...Int(generator.next() % 4) {
                let place = Int(generator.next() % UInt64(page.count))
                let piece = Array(pieces[Int(generator.next() % UInt64(pieces.count))].utf8)
                switch generator.next() % 3 {
                case 0: page[place] = UInt8(truncatingIfNeeded: generator.next())
                case 1: page.insert(contentsOf: piece, at: place)
                default: page.removeSubrange(place..<min(page.count, place + 1 + Int(generator.next() % 20)))
                }
                if page.isEmpty { page = [0x3C] }
            }
            var names: [ListedName] = []
            names += (try? HTMLIndex.parse(page, of: folder)).flatMap { $0 } ?? []
            names += (try? JSONIndex.parse(page)).flatMap { $0 } ?? []
            names += (try? PropertyListing.parse(page, of: folder)) ?? []
            for name in names { #expect(ListedName.isName(name.name.bytes), "seed \(seed)") }
        }
    }
}
