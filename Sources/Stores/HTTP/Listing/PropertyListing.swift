// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
package import S3Wire

/// WebDAV listings (RFC 4918): the body of a PROPFIND and the names in its answer.
package enum PropertyListing {
    /// Asks for what a listing needs and nothing more: some servers compute the rest for each file.
    package static let request = Array(
        """
        <?xml version="1.0" encoding="utf-8"?>
        <propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/><getetag/></prop></propfind>
        """.utf8
    )

    /// What an answer may have at most: about 60,000 names.
    package static let limits = XMLReader.Limits(bytes: 32 << 20, depth: 16, elements: 600_000)

    /// The names in the answer to a PROPFIND of `folder` with `Depth: 1`; the folder itself is not among them.
    package static func parse(_ document: [UInt8], of folder: WebURL) throws(ListingProblem) -> [ListedName] {
        let root: XMLElement
        do throws(XMLProblem) {
            root = try XMLReader.parse(document, limits: limits)
        } catch {
            throw ListingProblem(error.description)
        }
        guard root.name == "multistatus" else { throw ListingProblem("expected <multistatus>, got <\(root.name)>") }
        let responses = root.all("response")
        let names = responses.compactMap { name($0, folder) }
        // What is about somewhere else must not pass for an empty folder.
        guard !names.isEmpty || responses.contains(where: { isFolder($0, folder) }) else {
            throw ListingProblem("the listing is not about the folder that was asked for")
        }
        return names
    }

    private static func isFolder(_ response: XMLElement, _ folder: WebURL) -> Bool {
        let reference = response["href"].map { trimmingOptionalWhitespace($0) }
        let target = reference.flatMap { folder.resolving($0) }
        guard let target, target.origin == folder.origin else { return false }
        let path = PercentEncoding.decode(target.path)
        guard let wanted = PercentEncoding.decode(folder.path) else { return false }
        return path == wanted || path == wanted.dropLast()
    }

    private static func name(_ response: XMLElement, _ folder: WebURL) -> ListedName? {
        guard let reference = response["href"],
            let found = ListedName.child(trimmingOptionalWhitespace(reference), of: folder)
        else { return nil }
        let sound = response.all("propstat").first { isSuccess($0["status"]) }
        guard let properties = sound?.first("prop") else { return nil }
        if found.isFolder || properties.first("resourcetype")?.first("collection") != nil {
            return ListedName(name: found.name, isFolder: true)
        }
        let tag = properties["getetag"].flatMap { EntityTag(fieldValue: $0) }
        return ListedName(
            name: found.name,
            isFolder: false,
            size: properties["getcontentlength"].flatMap { decimalNumber(trimmingOptionalWhitespace($0)) },
            modified: properties["getlastmodified"].flatMap { HTTPDate.parse($0) },
            entityTag: tag?.isWeak == false ? tag : nil
        )
    }

    /// Whether a status line such as `HTTP/1.1 200 OK` is a success; servers that leave it out mean one.
    private static func isSuccess(_ line: String?) -> Bool {
        guard let line else { return true }
        let words = line.split(separator: " ")
        return words.count >= 2 && words[1].hasPrefix("2")
    }
}
