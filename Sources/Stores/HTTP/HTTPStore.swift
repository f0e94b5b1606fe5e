// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import CurlTransport
internal import HTTPWire
package import ObjectStore
internal import Platform

/// A folder of any web server, to be read.
///
/// What the server can do (WebDAV, index pages, ranges, strong validators) is
/// learned from its answers. Nothing is ever written.
package final class HTTPStore: ObjectStore {
    /// How folders are listed here.
    enum ListingForm: Hashable, Sendable {
        case unknown
        case webDAV
        case index
        /// The root cannot be listed, so a folder that is not found says nothing.
        case none
    }

    private struct Knowledge {
        var form = ListingForm.unknown
        var hasAnswered = false
        /// The versions that files were last seen at, for listings that tell less.
        var versions: [ObjectKey: (version: ObjectVersion, seenAt: Double)] = [:]
        /// Files that are sent as a whole only.
        var withoutRanges: Set<ObjectKey> = []
    }

    /// What the tags begin with that stand for one answer of a file without a strong validator.
    package static let weakTagPrefix = "moorage-"

    private static let maximumVersions = 100_000
    private static let maximumWithoutRanges = 10_000

    let client: HTTPClient
    let snapshots: Snapshots
    private let known = Lock(Knowledge())

    /// Nothing is sent yet.
    package init(configuration: HTTPStoreConfiguration, transport: CurlTransport) {
        client = HTTPClient(configuration, transport: transport)
        snapshots = Snapshots(client)
    }

    package func forgetAges() { client.forgetAges() }

    package func opened(_ key: ObjectKey, version: ObjectVersion) { snapshots.opened(key, version) }

    package func closed(_ key: ObjectKey, version: ObjectVersion) { snapshots.closed(key, version) }

    /// Has it told why files that are read in one answer are kept in memory, and nil once none is; on any thread.
    package func tellOfDisk(_ body: @escaping @Sendable (SystemError?) -> Void) { snapshots.tellOfDisk(body) }

    package var capabilities: StoreCapabilities {
        var capabilities = StoreCapabilities()
        capabilities.copy = false
        capabilities.multipart = false
        capabilities.resumableUpload = .none
        return capabilities
    }

    /// Whether the server tells what is in the folder; true before it was asked.
    package var canList: Bool { form != .none }

    var form: ListingForm {
        get { known.withLock { $0.form } }
        set { known.withLock { $0.form = newValue } }
    }

    package func check(attempts: Int) throws(StoreError) {
        if known.withLock({ $0.hasAnswered }) {
            _ = try client.send("HEAD", client.configuration.root, attempts: attempts)
            return
        }
        do throws(StoreError) {
            _ = try list(.root, recursive: false, continuation: nil)
        } catch {
            guard error.cause == .unsupported else { throw error }
        }
        known.withLock { $0.hasAnswered = true }
    }

    // MARK: Versions

    /// What is known of a file; of a folder, whose key ends with a slash, that it is there.
    package func status(
        of key: ObjectKey,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectStatus {
        let answer = try client.send("HEAD", client.url(key), cancellation: cancellation)
        let fields = answer.response.fields
        let isFolder = key.bytes.last == UInt8(ascii: "/")
        if answer.leadsToFolder { throw StoreError(.notFound, "it is a folder", status: answer.response.status) }
        switch answer.response.status {
        case 200..<300: break
        // The folder is there, its page is not for everyone.
        case 403 where isFolder, 405 where isFolder: break
        default: throw HTTPErrors.error(answer.response.status, fields)
        }
        if isFolder {
            return ObjectStatus(version: ObjectVersion(entityTag: nil, size: 0), metadata: ObjectMetadata())
        }
        if let coding = fields.contentCodings.first { throw HTTPErrors.coded(coding) }
        let version =
            if let size = fields.contentLength {
                version(of: key, fields, size: size)
            } else {
                try firstByte(of: key, cancellation)
            }
        return ObjectStatus(version: version, metadata: ObjectMetadata(modified: fields.lastModified))
    }

    /// Asks for a file's first byte, whose answer tells the length that some servers leave out of that to HEAD: Apache
    /// does when it is 0.
    private func firstByte(
        of key: ObjectKey,
        _ cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion {
        let range = HTTPFields([.init(name: "Range", value: "bytes=0-0")])
        let answer = try client.send("GET", client.url(key), fields: range, cancellation: cancellation)
        let fields = answer.response.fields
        if let coding = fields.contentCodings.first { throw HTTPErrors.coded(coding) }
        let size: Int64? =
            switch answer.response.status {
            case 206: fields["content-range"].flatMap { ContentRange($0)?.completeLength }
            case 200: fields.contentLength ?? Int64(answer.response.body.count)
            // Where there is no first byte there is none at all.
            case 416: fields["content-range"].flatMap { ContentRange($0)?.completeLength } ?? 0
            default: throw HTTPErrors.error(answer.response.status, fields)
            }
        guard let size else { throw StoreError(.unsupported, "the server does not tell the file's length") }
        return version(of: key, fields, size: size)
    }

    private func version(of key: ObjectKey, _ fields: HTTPFields, size: Int64) -> ObjectVersion {
        let modified = fields.lastModified
        let version: ObjectVersion
        switch VersionValidator(fields) {
        case .entityTag(let tag): version = ObjectVersion(entityTag: tag, size: size, lastModified: modified)
        case .modified(let time): version = ObjectVersion(entityTag: nil, size: size, lastModified: time)
        case .weak:
            forgetVersion(key)
            return snapshots.version(of: key, seen: Observation(fields, size: size), size: size, modified: modified)
        }
        known.withLock { known in
            if known.versions.count >= Self.maximumVersions { known.versions = [:] }
            known.versions[key] = (version, monotonicSeconds())
        }
        return version
    }

    /// The version that a HEAD told before, and when that was, in monotonic seconds.
    func knownVersion(_ key: ObjectKey) -> (version: ObjectVersion, seenAt: Double)? {
        known.withLock { $0.versions[key] }
    }

    /// A file is not what it was when it was last asked for.
    func forget(_ key: ObjectKey) {
        forgetVersion(key)
        snapshots.forget(key)
    }

    private func forgetVersion(_ key: ObjectKey) {
        known.withLock { _ = $0.versions.removeValue(forKey: key) }
    }

    // MARK: Content

    package func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        guard let validator = VersionValidator.ifRange(version), !known.withLock({ $0.withoutRanges.contains(key) })
        else { return snapshots.fetch(key, version, range, into: sink) }
        let fetch = HTTPRangeFetch(
            self,
            key: key,
            version: version,
            validator: validator,
            range: range,
            sink: sink
        )
        fetch.begin()
        return fetch
    }

    /// The server sent the whole file where its middle was asked for.
    func noteWithoutRanges(_ key: ObjectKey) {
        known.withLock { known in
            if known.withoutRanges.count >= Self.maximumWithoutRanges { known.withoutRanges = [] }
            known.withoutRanges.insert(key)
        }
    }
}
