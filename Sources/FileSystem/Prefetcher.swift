// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Asks for the attributes of a folder's files before they are looked at, many at once.
///
/// Not every listing tells mode, owner and time, and `ls -l` looks at one name after
/// another. A name of a folder that was read and had to be asked for starts the
/// asking for those that follow it, and one behind the middle of these for more.
final class Prefetcher: Sendable {
    private struct Folder {
        let path: ObjectKey
        /// Who reads it: to another one it is a folder of which nothing is queued yet.
        let reader: Int
        /// The names queued last.
        var batch: Batch?
        /// The last name outside it that had to be asked for.
        var outside: ObjectKey?
        var isLoading = false
    }

    private struct Batch {
        let first: ObjectKey
        /// A name behind this one that has to be asked for brings the next batch.
        let middle: ObjectKey
        let last: ObjectKey
    }

    /// What a name that had to be asked for leads to.
    private enum Step {
        case nothing
        /// The names behind this one are queued.
        case queue(after: ObjectKey)
        /// The same when the name is the next one behind this, so that somebody goes through the folder.
        case queueIfNext(after: ObjectKey)
    }

    private struct State {
        /// The folders read last, newest at the end.
        var folders: [Folder] = []
        var queue: ArraySlice<ObjectKey> = []
        var isStopping = false
        var running = 0
    }

    /// How many names are queued at once for a folder.
    static let batchSize = 1024
    private static let threads = 32
    private static let maximumFolders = 8
    private let state = Monitor(State())
    private let following: Following

    /// Tells the names of a folder behind another that have to be asked for, at most `limit`.
    typealias Following = @Sendable (_ folder: ObjectKey, _ name: ObjectKey, _ limit: Int) -> [ObjectKey]

    init(_ following: @escaping Following) {
        self.following = following
    }

    func start(_ ask: @escaping @Sendable (ObjectKey) -> Void) throws(SystemError) {
        for _ in 0..<Self.threads {
            state.inspect { $0.running += 1 }
            try Thread.detached(name: "attributes") { self.run(ask) }
        }
    }

    func stop() {
        state.update { $0.isStopping = true }
        _ = state.wait(timeout: 10) { $0.running == 0 ? true : nil }
    }

    /// A folder is read that has names which need asking, some of them again perhaps.
    func expect(in folder: ObjectKey, for reader: Int) {
        state.inspect { state in
            guard !state.folders.contains(where: { $0.path == folder && $0.reader == reader }) else { return }
            state.folders.removeAll { $0.path == folder }
            state.folders.append(Folder(path: folder, reader: reader))
            if state.folders.count > Self.maximumFolders { state.folders.removeFirst() }
        }
    }

    /// A name had to be asked for: its folder's others will follow.
    func missed(_ path: ObjectKey) {
        let (folder, name) = (path.parent, path.name)
        let step = state.inspect { state in
            state.folders.firstIndex { $0.path == folder }.map { Self.step(name, &state.folders[$0]) } ?? .nothing
        }
        let start: ObjectKey
        switch step {
        case .nothing: return
        case .queue(let after): start = after
        case .queueIfNext(let after):
            guard following(folder, after, 1).first == name else { return }
            start = name
        }
        let names = following(folder, start, Self.batchSize)
        state.update { state in
            guard let index = state.folders.firstIndex(where: { $0.path == folder }) else { return }
            state.folders[index].isLoading = false
            guard let first = names.first, let last = names.last else { return }
            state.folders[index].batch = Batch(first: first, middle: names[names.count / 2], last: last)
            // A full queue is of readers that went elsewhere.
            if state.queue.count > Self.maximumFolders * Self.batchSize { state.queue = [] }
            state.queue += names.map { folder.appending($0) }
        }
    }

    private static func step(_ name: ObjectKey, _ folder: inout Folder) -> Step {
        guard let batch = folder.batch else {
            if folder.isLoading { return .nothing }
            folder.isLoading = true
            return .queue(after: name)
        }
        if batch.first <= name, name <= batch.last {
            guard name >= batch.middle, !folder.isLoading else { return .nothing }
            folder.isLoading = true
            return .queue(after: batch.last)
        }
        defer { folder.outside = name }
        return .queueIfNext(after: folder.outside ?? batch.last)
    }

    private func run(_ ask: @Sendable (ObjectKey) -> Void) {
        while true {
            let next = state.wait { state -> ObjectKey?? in
                if state.isStopping { return .some(nil) }
                return state.queue.popFirst().map { .some($0) }
            }
            guard case .some(.some(let path)) = next else { break }
            ask(path)
        }
        state.update { $0.running -= 1 }
    }
}
