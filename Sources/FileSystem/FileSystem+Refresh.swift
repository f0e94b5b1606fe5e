// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import ObjectStore
internal import Platform

/// A name that the kernel was told of.
package struct KnownName: Hashable, Sendable {
    package var parent: InodeNumber
    package var name: ObjectKey
    package var isDirectory: Bool

    package init(parent: InodeNumber, name: ObjectKey, isDirectory: Bool) {
        self.parent = parent
        self.name = name
        self.isDirectory = isDirectory
    }
}

/// Asking the remote before what is known of it has aged.
extension FileSystem {
    /// Has the remote asked again at the next look at an inode, or at anything below it, however young what is known is.
    ///
    /// Returns the names that the kernel may still answer for.
    package func refresh(_ number: InodeNumber) throws(FileError) -> [KnownName] {
        view.forgetAges(at: try path(of: number))
        return table.names(at: number)
    }
}

/// A path that was to be asked again with all below it.
struct RefreshedPath {
    let path: ObjectKey
    let time: Timestamp
}

extension RemoteView {
    /// Forgets how young the listings of a folder, of those below it and of the one that it is in are.
    ///
    /// What remotes that do not list told of single names is forgotten of all: it costs one question a name.
    func forgetAges(at path: ObjectKey) {
        let now = Timestamp.now()
        refreshed.withLock { $0 = now }
        refreshedPaths.withLock { paths in
            paths.removeAll { $0.path.isInside(path) }
            // Of so many at once all is to be asked again.
            if paths.count >= Self.refreshedLimit { paths = [RefreshedPath(path: .root, time: now)] }
            paths.append(RefreshedPath(path: path, time: now))
        }
        remote.store.forgetAges()
        listings.forgetAll(at: path)
    }

    private static let refreshedLimit = 64

    /// When a path, or a folder that it is in, was to be asked again last.
    func refreshTime(of path: ObjectKey) -> Timestamp? {
        refreshedPaths.withLock { paths in paths.filter { path.isInside($0.path) }.map(\.time).max() }
    }

    /// Whether something was known before everything was to be asked again.
    func isOutdated(_ time: Timestamp) -> Bool { refreshed.withLock { $0.map { time <= $0 } ?? false } }
}

extension InodeTable {
    /// The names that lead to an inode or to one below it.
    func names(at number: InodeNumber) -> [KnownName] {
        let places = allNamed
        var isBelow = [Self.rootNumber: false]
        isBelow[number] = true
        let parents = Dictionary(places.map { ($0.inode.number, $0.parent) }) { first, _ in first }
        for place in places {
            var way: [InodeNumber] = []
            var current = place.inode.number
            while isBelow[current] == nil, let parent = parents[current] {
                way.append(current)
                current = parent
            }
            let verdict = isBelow[current] ?? false
            for step in way { isBelow[step] = verdict }
        }
        return places.filter { isBelow[$0.inode.number] == true }.map {
            KnownName(parent: $0.parent, name: $0.name, isDirectory: $0.inode.kind == .directory)
        }
    }
}
