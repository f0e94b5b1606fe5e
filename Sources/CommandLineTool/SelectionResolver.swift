// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Glibc

/// Which uploads the words of a command line mean.
struct SelectionResolver {
    let volumes: [VolumeDescription]
    let configuration: ConfigurationFile
    let workingDirectory: String

    init(_ instance: Instance) {
        volumes = instance.volumes()
        configuration = instance.configuration
        workingDirectory = AbsolutePath.workingDirectory()
    }

    init(volumes: [VolumeDescription], configuration: ConfigurationFile, workingDirectory: String) {
        self.volumes = volumes
        self.configuration = configuration
        self.workingDirectory = workingDirectory
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
        do throws(ConfigurationError) {
            guard case .http(let url) = try RemoteName(word) else { return nil }
            return volumes.first { $0.url == url }.map { UploadSelection(volumes: [$0.id]) }
        } catch {
            throw .usage(error.description)
        }
    }

    private func resolveRemote(_ word: String) throws(CommandFailure) -> UploadSelection? {
        do throws(ConfigurationError) {
            guard case .s3(let bucket, let prefix) = try RemoteName(word) else { return nil }
            return selection(bucket: bucket, prefix: prefix)
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

    /// The path inside the volume that is, or was last, mounted deepest above it.
    private func resolvePath(_ path: String) -> UploadSelection? {
        let wanted = ObjectKey(path)
        let above = volumes.filter { volume in
            volume.mountpoint.map { wanted.isInside(ObjectKey($0)) } ?? false
        }
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
