// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import ObjectStore
internal import Platform
internal import S3Wire

/// The objects that show what a server can do; each is deleted at once.
///
/// Their names begin with `.moorage-probe` and name their owner: two machines that probe the same bucket do not
/// meet, and what a killed process left is deleted by its successor.
enum ScratchObject: String, CaseIterable {
    /// It comes into being only where conditions are ignored.
    case condition = ""
    /// A folder marker, or the file that a server makes of it.
    case folder = "-folder"
    case source = "-source"
    case target = "-target"
    case deletion = "-deletion"
    /// It has nothing but its byte: what a look at it tells is told of any object.
    case answer = "-answer"

    private static let prefix = ".moorage-probe"

    static func base(_ owner: String?) -> String { owner.map { "\(prefix)-\($0)" } ?? prefix }

    func name(_ owner: String?) -> ObjectKey { ObjectKey(Self.base(owner) + rawValue) }

    /// Whether a key is a scratch object of anybody: no file of the user's.
    static func includes(_ key: ObjectKey) -> Bool { key.bytes.starts(with: prefixBytes) }

    private static let prefixBytes = Array(prefix.utf8)
}

extension S3Store {
    /// How far the scratch objects of the process before are cleared away.
    enum Clearing {
        case needed
        case underWay
        case done
    }

    /// The stores of a process share it: one made anew, with other credentials say, must not take what another is
    /// trying just now for something left.
    static func clearing(_ configuration: S3StoreConfiguration) -> Monitor<Clearing> {
        guard let owner = configuration.scratchOwner else { return Monitor(.needed) }
        let remote = [configuration.endpoint ?? "", configuration.bucket, configuration.prefix.string, owner]
        return clearings.withLock { clearings in
            if let known = clearings[remote] { return known }
            let new = Monitor(Clearing.needed)
            clearings[remote] = new
            return new
        }
    }

    private static let clearings = Lock<[[String]: Monitor<Clearing>]>([:])

    func scratch(_ object: ScratchObject) -> ObjectKey { object.name(client.configuration.scratchOwner) }

    /// A version that no object ever has.
    static let impossibleTag = EntityTag(opaque: String(repeating: "0", count: 32))

    /// Makes a scratch object, of one byte.
    func putScratch(_ key: ObjectKey) throws(StoreError) {
        var request = S3Request("PUT", client.fullKey(key))
        request.body = .bytes([0x78])
        _ = try client.send(request)
    }

    /// Whether the server refuses what must not be done; one that does it, or does not know what it is asked, goes by no
    /// such condition.
    func isRefused(_ attempt: () throws(StoreError) -> Void) throws(StoreError) -> Bool {
        do throws(StoreError) {
            try attempt()
        } catch {
            switch error.cause {
            case .preconditionFailed: return true
            // Nothing was found out, and nothing else will work either.
            case .unreachable, .authentication, .noSuchBucket, .cancelled: throw error
            // Whatever else it makes of such a request, it had better get none.
            default: return false
            }
        }
        return false
    }

    /// Deletes what a process before this one left, once, before the first scratch object is made.
    func clearScratch() throws(StoreError) {
        let isMine =
            clearing.wait { clearing -> Bool? in
                if clearing == .underWay { return nil }
                if clearing == .done { return false }
                clearing = .underWay
                return true
            } ?? false
        guard isMine else { return }
        do throws(StoreError) {
            for key in try leftScratch() {
                Log.notice("s3", "deleting \(key), which a process left that was killed")
                _ = try client.send(S3Request("DELETE", client.fullKey(key)))
            }
            clearing.update { $0 = .done }
        } catch {
            // Who may not list or delete cannot clear away; anything else is tried again.
            let isFinal = !error.isTransient && error.cause != .authentication && error.cause != .noSuchBucket
            clearing.update { $0 = isFinal ? .done : .needed }
            if !isFinal { throw error }
        }
    }

    /// The scratch objects of this owner that are there, the folder's marker with its slash.
    private func leftScratch() throws(StoreError) -> [ObjectKey] {
        let owner = client.configuration.scratchOwner
        var request = S3Request("GET", nil)
        let prefix = client.fullKey(ObjectKey(ScratchObject.base(owner)))
        request.query = listQuery(prefix, recursive: true, continuation: nil, limit: 1000)
        let response = try client.send(request)
        let result: ListObjectsResult
        do throws(XMLProblem) {
            result = try ListObjectsResult(try XMLReader.parse(response.body))
        } catch {
            throw StoreError(.protocolViolation, "the listing is not usable: \(error)")
        }
        let names = ScratchObject.allCases.map { $0.name(owner) }
        let candidates = names + [ObjectKey(bytes: scratch(.folder).bytes + [0x2F])]
        return candidates.filter { key in result.entries.contains { $0.key == client.fullKey(key) } }
    }
}
