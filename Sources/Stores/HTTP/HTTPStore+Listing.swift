// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
internal import HTTPWire
package import ObjectStore
internal import Platform

extension HTTPStore {
    /// The largest page that is read.
    private static let pageLimit = 32 << 20

    /// All names of a folder in one page, from WebDAV or an index page.
    ///
    /// Throws `.unsupported` when the server does not tell them. A file whose version the listing does not tell for
    /// certain is given one that no other equals, so that it is asked for.
    package func list(
        _ folder: ObjectKey,
        recursive: Bool,
        continuation: String?
    ) throws(StoreError) -> ListingPage {
        guard !recursive else { throw StoreError(.unsupported, "web servers list one folder at a time") }
        let url = client.folderURL(folder)
        if form != .index, let page = try propertyPage(folder, url) { return page }
        do throws(StoreError) {
            let page = try indexPage(folder, url)
            if folder.isRoot, form == .unknown || form == .none { form = .index }
            return page
        } catch {
            if folder.isRoot, error.cause == .unsupported { form = .none }
            throw error
        }
    }

    // MARK: WebDAV

    /// The answer to PROPFIND; nil where that is not understood.
    private func propertyPage(_ folder: ObjectKey, _ url: WebURL) throws(StoreError) -> ListingPage? {
        let fields = HTTPFields([
            .init(name: "Depth", value: "1"), .init(name: "Content-Type", value: "application/xml; charset=utf-8"),
        ])
        let answer: HTTPClient.Answer
        do throws(StoreError) {
            answer = try client.send(
                "PROPFIND",
                url,
                fields: fields,
                body: PropertyListing.request,
                limit: Self.pageLimit,
                timeLimit: client.configuration.listingTimeout
            )
        } catch {
            // Only a server that has listed this way before is believed to be unable for the moment.
            let isPassing = error.cause == .unreachable || error.cause == .authentication || form == .webDAV
            guard !isPassing, error.cause == .redirected || error.status != nil else { throw error }
            return nil
        }
        switch answer.response.status {
        case 207: return try propertyPage(folder, answer)
        case 401, 407: throw HTTPErrors.error(answer.response.status, answer.response.fields)
        case 404 where form == .webDAV && !folder.isRoot: throw Self.notFound
        default: return nil
        }
    }

    private func propertyPage(_ folder: ObjectKey, _ answer: HTTPClient.Answer) throws(StoreError) -> ListingPage {
        do throws(ListingProblem) {
            let names = try PropertyListing.parse(answer.response.body, of: answer.url)
            if folder.isRoot { form = .webDAV }
            return page(names, folder)
        } catch {
            throw StoreError(.protocolViolation, "the listing is not usable: \(error)")
        }
    }

    // MARK: Index pages

    private func indexPage(_ folder: ObjectKey, _ url: WebURL) throws(StoreError) -> ListingPage {
        let fields = HTTPFields([.init(name: "Accept", value: "application/json, text/html;q=0.9, */*;q=0.1")])
        let answer: HTTPClient.Answer
        do throws(StoreError) {
            answer = try client.send(
                "GET",
                url,
                fields: fields,
                limit: Self.pageLimit,
                timeLimit: client.configuration.listingTimeout
            )
        } catch {
            guard error.cause == .redirected else { throw error }
            throw Self.noIndex("its page is elsewhere: \(error.message)")
        }
        switch answer.response.status {
        case 200: return try indexPage(folder, answer)
        case 404, 410:
            if !folder.isRoot, form == .index || form == .webDAV { throw Self.notFound }
            throw Self.noIndex("its page is answered by \(answer.response.status)")
        case 403, 405, 406: throw Self.noIndex("its page is answered by \(answer.response.status)")
        default: throw HTTPErrors.error(answer.response.status, answer.response.fields)
        }
    }

    private func indexPage(_ folder: ObjectKey, _ answer: HTTPClient.Answer) throws(StoreError) -> ListingPage {
        guard answer.url.path.hasSuffix("/") else { throw Self.noIndex("its page is elsewhere") }
        if let coding = answer.response.fields.contentCodings.first { throw HTTPErrors.coded(coding) }
        guard let names = try names(answer) else { throw Self.noIndex("its page is no index") }
        return page(names, folder)
    }

    private func names(_ answer: HTTPClient.Answer) throws(StoreError) -> [ListedName]? {
        do throws(ListingProblem) {
            return Self.isJSON(answer.response.fields)
                ? try JSONIndex.parse(answer.response.body) : try HTMLIndex.parse(answer.response.body, of: answer.url)
        } catch {
            throw StoreError(.protocolViolation, "the index page is not usable: \(error)")
        }
    }

    private static func isJSON(_ fields: HTTPFields) -> Bool {
        (fields["content-type"] ?? "").lowercased().hasPrefix("application/json")
    }

    /// No answer about what is in a folder: that it is gone is for the listing of its parent to say.
    private static let notFound = StoreError(.rejected, "the server does not find the folder (404)", status: 404)

    private static func noIndex(_ reason: String) -> StoreError {
        StoreError(.unsupported, "the server does not list this folder: \(reason)")
    }

    // MARK: Names

    private func page(_ names: [ListedName], _ folder: ObjectKey) -> ListingPage {
        var page = ListingPage(entries: [], folders: [], next: nil)
        for name in names {
            let key = folder.appending(name.name)
            if name.isFolder {
                page.folders.append(key)
            } else {
                page.entries.append(.init(key: key, version: version(of: key, name)))
            }
        }
        return page
    }

    /// The version that a listing tells of, or hints at.
    private func version(of key: ObjectKey, _ name: ListedName) -> ObjectVersion {
        if let tag = name.entityTag, let size = name.size {
            return ObjectVersion(entityTag: tag, size: size, lastModified: name.modified)
        }
        let known = knownVersion(key)
        guard let size = name.size, let modified = name.modified else {
            // The name alone says nothing: what was told of the file is believed as long as other names are.
            if let known, client.isBelieved(known.seenAt) { return known.version }
            return ObjectVersion(entityTag: nil, size: 0)
        }
        // A version was strong when it was seen: with another content it would have another time.
        if let version = known?.version, version.size == size, version.lastModified == modified { return version }
        return ObjectVersion(entityTag: nil, size: size, lastModified: modified)
    }
}
