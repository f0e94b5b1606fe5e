// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Glibc
internal import Platform

/// `moorage cache refresh`: has a mount ask its remote anew at the next look.
enum CacheRefresh {
    /// Read, not set: a mount that is read-only refuses that before we are asked.
    private static let attribute = "user.moorage.refresh"

    /// Refreshes files and folders in mounted volumes.
    static func run(_ paths: [String], asJSON: Bool) throws(CommandFailure) -> Int32 {
        guard !paths.isEmpty else { throw .usage("cache refresh: name a file or folder in a mounted volume") }
        var refreshed: [RefreshReport.Path] = []
        for path in paths {
            let place = AbsolutePath.resolved(path, in: AbsolutePath.workingDirectory())
            guard let root = mountpoint(above: place) else {
                throw CommandFailure("cache: \(path): not in a mounted volume; see moorage status")
            }
            refreshed.append(RefreshReport.Path(path: path, asked: try refresh(place, root, path)))
        }
        if asJSON { Console.bytes(try document(RefreshReport(refreshed: refreshed))) }
        return 0
    }

    /// Refreshes a path, or the folder that it is to appear in where nothing is known of it yet; returns which.
    private static func refresh(_ place: String, _ root: String, _ path: String) throws(CommandFailure) -> String {
        var place = place
        var value: [UInt8] = [0]
        while moorage_getxattr(place, attribute, &value, value.count) < 0 {
            let code = errno
            guard code == ENOENT || code == ENOTDIR, place != root, let slash = place.lastIndex(of: "/") else {
                throw CommandFailure("cache: \(path): \(SystemError.make(code, "getxattr").reason)")
            }
            place = String(place[..<slash])
        }
        return place
    }

    /// The deepest mount of ours that a path is in.
    private static func mountpoint(above path: String) -> String? {
        let wanted = ObjectKey(path)
        let above = MountTable.current().filter { wanted.isInside(ObjectKey($0.mountpoint)) }
        guard let deepest = above.map(\.mountpoint.utf8.count).max() else { return nil }
        return above.last { $0.mountpoint.utf8.count == deepest && $0.remote != nil }?.mountpoint
    }
}

/// The document of `cache refresh --json`.
struct RefreshReport: Encodable, Sendable {
    struct Path: Encodable, Sendable {
        /// As it was named.
        var path: String
        /// The absolute path of what is asked for anew: itself, or the folder where it may appear.
        var asked: String
    }

    var refreshed: [Path]
}
