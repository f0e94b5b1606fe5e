// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc

/// Which uploads the words of a command line mean.
struct SelectionResolver {
    /// The one that was mounted last comes first.
    let volumes: [VolumeDescription]
    /// The ids of those that are mounted now.
    let mounted: Set<String>
    let configuration: ConfigurationFile
    let workingDirectory: String

    init(_ instance: Instance) {
        volumes = instance.volumesByUse()
        mounted = Set(volumes.filter { $0.currentMountpoint(instance.directories) != nil }.map(\.id))
        configuration = instance.configuration
        workingDirectory = AbsolutePath.workingDirectory()
    }

    init(
        volumes: [VolumeDescription],
        mounted: Set<String> = [],
        configuration: ConfigurationFile,
        workingDirectory: String
    ) {
        self.volumes = volumes
        self.mounted = mounted
        self.configuration = configuration
        self.workingDirectory = workingDirectory
    }

    /// The uploads that the words of `moorage uploads` name: everything when there are none, else ids and paths.
    ///
    /// A selection a volume: a path in one volume must not mean the same path in another.
    func uploads(named words: [String]) throws(CommandFailure) -> [UploadSelection] {
        guard !words.isEmpty else { return [UploadSelection()] }
        var ids: [String] = []
        var paths: [String: [String]] = [:]
        for word in words {
            if UploadIdentifier.isOne(word) {
                ids.append(word)
                continue
            }
            guard let found = try resolve(word) else {
                throw CommandFailure(
                    "uploads: \(word): neither an upload's id nor in a volume that was mounted here; "
                        + "see moorage uploads and moorage status"
                )
            }
            guard !found.paths.isEmpty else {
                guard words.count == 1 else { throw .usage("uploads: \(word) means a whole volume; name it alone") }
                return [found]
            }
            for volume in found.volumes { paths[volume, default: []] += found.paths }
        }
        let byPath = paths.sorted { $0.key < $1.key }.map { UploadSelection(volumes: [$0.key], paths: $0.value) }
        return byPath + (ids.isEmpty ? [] : [UploadSelection(ids: ids)])
    }

    /// All that is under a remote or a path, in whichever volumes; empty when there is none.
    ///
    /// The volumes of a bucket and of a prefix in it are different ones, and one may be mounted inside another.
    func everything(under word: String) throws(CommandFailure) -> [UploadSelection] {
        let named = RemoteName.isWeb(word) ? nil : configuration.volume(named: word)?.remote
        if word.hasPrefix("s3://"), case .s3(let bucket, let prefix) = try remote(word) {
            return everything(in: bucket, under: ObjectKey(prefix))
        }
        if case .s3(let bucket, let prefix)? = named { return everything(in: bucket, under: ObjectKey(prefix)) }
        var result = try resolve(word).map { [$0] } ?? []
        let wanted = ObjectKey(AbsolutePath.resolved(word, in: workingDirectory))
        for volume in volumes
        where mounted.contains(volume.id) && !result.contains(where: { $0.volumes == [volume.id] }) {
            guard let place = volume.mountpoint, ObjectKey(place).isInside(wanted) else { continue }
            result.append(UploadSelection(volumes: [volume.id]))
        }
        return result
    }

    private func everything(in bucket: String, under wanted: ObjectKey) -> [UploadSelection] {
        volumes.filter { $0.bucket == bucket && $0.url == nil }.compactMap { volume in
            let prefix = ObjectKey(volume.prefix)
            if prefix.isInside(wanted) { return UploadSelection(volumes: [volume.id]) }
            guard wanted.isInside(prefix), let path = wanted.moved(from: prefix, to: .root) else { return nil }
            return UploadSelection(volumes: [volume.id], paths: [path.string])
        }
    }

    /// The selection of one word: a remote, the name of a volume, or a path in or below a mountpoint.
    ///
    /// Returns nil when the word is none of them.
    func resolve(_ word: String) throws(CommandFailure) -> UploadSelection? {
        if RemoteName.isWeb(word) { return try resolveWeb(word) }
        if word.hasPrefix("s3://") { return try resolveRemote(word) }
        if let section = configuration.volume(named: word), case .s3(let bucket, let prefix) = section.remote {
            return selection(bucket: bucket, prefix: prefix)
        }
        if let section = configuration.volume(named: word), case .http(let url) = section.remote {
            return try resolveWeb(url)
        }
        if let volume = volumes.first(where: { $0.id == word }) { return UploadSelection(volumes: [volume.id]) }
        return resolvePath(AbsolutePath.resolved(word, in: workingDirectory))
    }

    private func resolveWeb(_ word: String) throws(CommandFailure) -> UploadSelection? {
        guard case .http(let url) = try remote(word) else { return nil }
        return volumes.first { $0.url == url }.map { UploadSelection(volumes: [$0.id]) }
    }

    private func resolveRemote(_ word: String) throws(CommandFailure) -> UploadSelection? {
        guard case .s3(let bucket, let prefix) = try remote(word) else { return nil }
        return selection(bucket: bucket, prefix: prefix)
    }

    private func remote(_ word: String) throws(CommandFailure) -> RemoteName {
        do throws(ConfigurationError) {
            return try RemoteName(word)
        } catch {
            throw .usage(error.description)
        }
    }

    /// The volume with exactly this prefix, or the part of a volume that lies under it.
    private func selection(bucket: String, prefix: String) -> UploadSelection? {
        let wanted = ObjectKey(prefix)
        let candidates = volumes.filter { $0.bucket == bucket }
        let exact = candidates.filter { $0.prefix == prefix }
        if !exact.isEmpty { return UploadSelection(volumes: exact.map(\.id)) }
        let above = candidates.filter { wanted.isInside(ObjectKey($0.prefix)) }
        guard let volume = above.max(by: { $0.prefix.utf8.count < $1.prefix.utf8.count }),
            let path = wanted.moved(from: ObjectKey(volume.prefix), to: .root)
        else { return nil }
        return UploadSelection(volumes: [volume.id], paths: [path.string])
    }

    /// The path inside the volume that is mounted deepest above it, or was last when none is mounted there now.
    private func resolvePath(_ path: String) -> UploadSelection? {
        let wanted = ObjectKey(path)
        let everAbove = volumes.filter { volume in
            volume.mountpoint.map { wanted.isInside(ObjectKey($0)) } ?? false
        }
        let nowAbove = everAbove.filter { mounted.contains($0.id) }
        // Of several that were mounted at the same place the first, which was there last, is the greatest.
        let above = nowAbove.isEmpty ? everAbove : nowAbove
        guard let volume = above.max(by: { ($0.mountpoint ?? "").utf8.count < ($1.mountpoint ?? "").utf8.count }),
            let rest = wanted.moved(from: ObjectKey(volume.mountpoint ?? ""), to: .root)
        else { return nil }
        return UploadSelection(volumes: [volume.id], paths: rest.isRoot ? [] : [rest.string])
    }
}

/// Paths made absolute without a look at a mounted file system's content.
enum AbsolutePath {
    static func workingDirectory() -> String {
        guard let pointer = getcwd(nil, 0) else { return "/" }
        defer { free(pointer) }
        return String(cString: pointer)
    }

    /// `path` without `.`, `..`, double slashes, and with the symbolic links of its folder resolved where that exists.
    static func resolved(_ path: String, in folder: String) -> String {
        let lexical = normalized(path.hasPrefix("/") ? path : folder + "/" + path)
        if let real = real(lexical) { return real }
        var missing: [Substring] = []
        var parts = lexical.split(separator: "/")
        while let last = parts.popLast() {
            missing.insert(last, at: 0)
            if let real = real("/" + parts.joined(separator: "/")) {
                return (real == "/" ? "" : real) + "/" + missing.joined(separator: "/")
            }
        }
        return lexical
    }

    private static func normalized(_ path: String) -> String {
        var parts: [Substring] = []
        for part in path.split(separator: "/") where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        return "/" + parts.joined(separator: "/")
    }

    private static func real(_ path: String) -> String? {
        guard let pointer = realpath(path, nil) else { return nil }
        defer { free(pointer) }
        return String(cString: pointer)
    }
}
