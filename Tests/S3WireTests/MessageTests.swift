// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import S3Wire
import Testing

@Suite struct MessageTests {
    static let oddKey = ObjectKey("a b+c/<&>\u{1}é%")

    @Test(arguments: [true, false])
    func listingsGoBothWays(isSecondVersion: Bool) throws {
        let entries = [Self.oddKey, ObjectKey("z")].map {
            ListObjectsResult.Entry(key: $0, size: 7, entityTag: "\"t\"", lastModified: Published.time)
        }
        let result = ListObjectsResult(
            bucket: "bucket",
            prefix: ObjectKey("p q/"),
            delimiter: ObjectKey("/"),
            maxKeys: 1000,
            isTruncated: true,
            isURLEncoded: true,
            entries: entries,
            commonPrefixes: [ObjectKey("p q/d/")],
            paging: isSecondVersion
                ? .v2(continuationToken: "c", nextContinuationToken: "n==", startAfter: ObjectKey("s"))
                : .v1(marker: ObjectKey("m"), nextMarker: nil)
        )
        let read = try ListObjectsResult(XMLReader.parse(result.xml))
        #expect(read == result)
        #expect(read.next == (isSecondVersion ? "n==" : "z"))
        #expect(ListObjectsResult.likelyContinuation(result.xml) == (isSecondVersion ? "n==" : nil))
    }

    @Test(arguments: [
        ("<NextContinuationToken>a/b=</NextContinuationToken>", "a/b="), ("<NextContinuationToken/>", nil),
        ("<NextContinuationToken></NextContinuationToken>", nil), ("<NextContinuationToken>", nil),
        ("<NextContinuationToken>a&amp;b</NextContinuationToken>", nil), ("<NextContinuationToken", nil), ("", nil),
    ])
    func aLikelyContinuationIsPlainText(document: String, token: String?) {
        #expect(ListObjectsResult.likelyContinuation(Array(document.utf8)) == token)
    }

    @Test func bothSpellingsOfASpaceAreRead() throws {
        let xml = """
            <ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>\
            <Contents><Key>a+b</Key><Size>1</Size></Contents><Contents><Key>a%20b%2B</Key><Size> 2
            </Size></Contents></ListBucketResult>
            """
        let list = try ListObjectsResult(XMLReader.parse(Array(xml.utf8)))
        #expect(list.entries.map(\.key) == [ObjectKey("a b"), ObjectKey("a b+")])
        #expect(list.next == nil)
    }

    @Test func metadataInListingsGoesBothWays() throws {
        let fields = HTTPFields([
            .init(name: "Content-Type", value: "text/plain"), .init(name: "x-amz-meta-odd_name.1", value: "a<&>\"\té"),
        ])
        let metadata = [fields, HTTPFields(), nil]
        let result = ListObjectsResult(
            bucket: "bucket",
            prefix: .root,
            delimiter: nil,
            maxKeys: 1000,
            isTruncated: false,
            isURLEncoded: true,
            entries: metadata.enumerated().map { index, metadata in
                .init(key: ObjectKey("k\(index)"), size: 1, entityTag: nil, lastModified: nil, metadata: metadata)
            },
            commonPrefixes: [],
            paging: .v2(continuationToken: nil, nextContinuationToken: nil, startAfter: nil)
        )
        #expect(try ListObjectsResult(XMLReader.parse(result.xml)).entries.map(\.metadata) == metadata)
        #expect(ListedMetadata.canHold(fields))
        for (name, value) in [("x-amz-meta-a!", "b"), ("1", "b"), ("", "b"), ("a", "\u{1}"), ("a", "\u{FFFF}")] {
            #expect(!ListedMetadata.canHold(HTTPFields([.init(name: name, value: value)])))
        }
    }

    /// The forms of its releases; an element of neither form tells nothing.
    @Test func metadataOfMinIOIsRead() throws {
        let forms = [
            "<UserMetadata><content-type>text/plain</content-type><X-Amz-Meta-Mode>33188</X-Amz-Meta-Mode></UserMetadata>",
            "<UserMetadata><Items><Key>X-Amz-Meta-Mode</Key><Value>33188</Value></Items></UserMetadata>",
            "<UserMetadata><Items></Items></UserMetadata>",
            "<Internal><K>1</K><M>0</M></Internal>",
        ]
        let modes = try forms.map { form in
            let xml = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size>\(form)</Contents></ListBucketResult>"
            return try ListObjectsResult(XMLReader.parse(Array(xml.utf8))).entries[0].metadata?["x-amz-meta-mode"]
        }
        #expect(modes == ["33188", "33188", nil, nil])
        let empty = "<ListBucketResult><Contents><Key>a</Key><Size>1</Size>\(forms[2])</Contents></ListBucketResult>"
        #expect(try ListObjectsResult(XMLReader.parse(Array(empty.utf8))).entries[0].metadata == nil)
    }

    @Test func multipartMessagesGoBothWays() throws {
        let created = CreateMultipartUploadResult(bucket: "b", key: ObjectKey("k&"), uploadID: "u/1")
        #expect(try CreateMultipartUploadResult(XMLReader.parse(created.xml)) == created)
        let request = CompleteMultipartUploadRequest(parts: [
            .init(number: 1, entityTag: "\"a\""), .init(number: 2, entityTag: "b"),
        ])
        #expect(try CompleteMultipartUploadRequest(XMLReader.parse(request.xml)) == request)
        var completed = CompleteMultipartUploadResult(
            location: "http://h/b/k",
            bucket: "b",
            key: ObjectKey("k"),
            entityTag: "\"x-2\""
        )
        #expect(try CompleteMultipartUploadResult(XMLReader.parse(completed.xml)) == completed)
        completed.checksum = DocumentChecksum(algorithm: "CRC32", value: "AAAAAA==-2", type: "COMPOSITE")
        #expect(try CompleteMultipartUploadResult(XMLReader.parse(completed.xml)) == completed)
        for kind in [CopyResult.Kind.object, .part] {
            let copy = CopyResult(kind: kind, entityTag: "\"t\"", lastModified: Published.time)
            #expect(try CopyResult(XMLReader.parse(copy.xml), kind: kind) == copy)
        }
    }

    @Test func multipartListingsGoBothWays() throws {
        var parts = ListPartsResult(
            bucket: "b",
            key: ObjectKey("k"),
            uploadID: "u",
            partNumberMarker: 0,
            nextPartNumberMarker: 9,
            maxParts: 2,
            isTruncated: true,
            parts: [.init(number: 3, size: 5, entityTag: "\"t\"", lastModified: nil)]
        )
        parts.checksumAlgorithm = "SHA1"
        parts.checksumType = "COMPOSITE"
        parts.parts[0].checksum = DocumentChecksum(algorithm: "SHA1", value: "AAAA")
        let read = try ListPartsResult(XMLReader.parse(parts.xml))
        #expect(read == parts)
        #expect(read.next == 3)
        var uploads = ListMultipartUploadsResult(
            bucket: "b",
            uploads: [.init(key: Self.oddKey, uploadID: "u", initiated: Published.time)]
        )
        uploads.isURLEncoded = true
        uploads.commonPrefixes = [ObjectKey("d/")]
        #expect(try ListMultipartUploadsResult(XMLReader.parse(uploads.xml)) == uploads)
    }

    @Test func deletionsGoBothWays() throws {
        let request = DeleteRequest(
            objects: [.init(key: ObjectKey("a")), .init(key: ObjectKey("b"), entityTag: "\"t\"")],
            isQuiet: true
        )
        #expect(try DeleteRequest(XMLReader.parse(request.xml)) == request)
        let result = DeleteResult(
            deleted: [ObjectKey("a")],
            failures: [.init(key: ObjectKey("b"), code: "AccessDenied", message: "no")]
        )
        #expect(try DeleteResult(XMLReader.parse(result.xml)) == result)
        let many = DeleteRequest(objects: Array(repeating: .init(key: ObjectKey("a")), count: 1001), isQuiet: false)
        #expect(throws: XMLProblem.self) { try DeleteRequest(XMLReader.parse(many.xml)) }
    }

    @Test func bucketsGoBothWays() throws {
        var result = ListBucketsResult(buckets: [.init(name: "b", created: Published.time)])
        result.prefix = "b"
        result.continuationToken = "t"
        #expect(try ListBucketsResult(XMLReader.parse(result.xml)) == result)
    }

    @Test func errorsGoBothWays() throws {
        var error = S3Error(.noSuchKey, resource: "/b/k")
        error.requestID = "r"
        error.details = [XMLElement(name: "Region", text: "eu-west-1")]
        let read = try #require(S3Error(XMLReader.parse(error.xml)))
        #expect(read == error)
        #expect(read.known == .noSuchKey && read.status == 404)
        #expect(read.detail("Region") == "eu-west-1")
        #expect(S3Error(XMLElement(name: "Other")) == nil)
        #expect(S3Error(code: "Foo", message: "").status == 400)
    }

    @Test func wrongDocumentsAreNamed() {
        let other = XMLElement(name: "Error")
        #expect(throws: XMLProblem.self) { try ListObjectsResult(other) }
        #expect(throws: XMLProblem.self) { try CopyResult(other, kind: .part) }
        #expect(throws: XMLProblem.self) { try CompleteMultipartUploadResult(other) }
        let zero = XMLElement(
            name: "CompleteMultipartUpload",
            children: [
                XMLElement(
                    name: "Part",
                    children: [XMLElement(name: "PartNumber", text: "0"), XMLElement(name: "ETag", text: "a")]
                )
            ]
        )
        #expect(throws: XMLProblem.self) { try CompleteMultipartUploadRequest(zero) }
    }
}
