// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Asks for the attributes of a folder's files before they are looked at, many at once.
///
/// A listing tells no mode, owner or time, and `ls -l` looks at one name after
/// another. The first name of a listed folder that had to be asked for starts
/// the asking for those that follow it.
final class Prefetcher: Sendable {
    private struct State {
        /// The folders listed last, newest at the end, each with its names in listing order.
        var expected: [(folder: ObjectKey, names: [ObjectKey])] = []
        /// Last in, first out: what was looked at last is wanted first.
        var queue: [ObjectKey] = []
        var isStopping = false
        var running = 0
    }

    private let state = Monitor(State())
    private static let threads = 16
    private static let maximumFolders = 8
    private static let maximumQueue = 4096

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

    /// Remembers the names of a folder that would need asking.
    func expect(_ names: [ObjectKey], in folder: ObjectKey) {
        state.inspect { state in
            state.expected.removeAll { $0.folder == folder }
            guard names.count > 1 else { return }
            state.expected.append((folder, names))
            if state.expected.count > Self.maximumFolders { state.expected.removeFirst() }
        }
    }

    /// A name had to be asked for: its folder's others will follow.
    func missed(_ path: ObjectKey) {
        let hasWork = state.inspect { state -> Bool in
            let folder = path.parent
            guard let index = state.expected.firstIndex(where: { $0.folder == folder }) else { return false }
            let names = state.expected[index].names
            guard let position = names.firstIndex(of: path.name) else { return false }
            state.expected.remove(at: index)
            // Those behind it come first, then those before it.
            let ordered = names[(position + 1)...] + names[..<position]
            let paths = ordered.prefix(Self.maximumQueue).map { folder.appending($0) }
            state.queue = state.queue.suffix(Self.maximumQueue - paths.count) + paths.reversed()
            return true
        }
        if hasWork { state.update { _ in } }
    }

    private func run(_ ask: @Sendable (ObjectKey) -> Void) {
        while true {
            let next = state.wait { state -> ObjectKey?? in
                if state.isStopping { return .some(nil) }
                return state.queue.popLast().map { .some($0) }
            }
            guard case .some(.some(let path)) = next else { break }
            ask(path)
        }
        state.update { $0.running -= 1 }
    }
}
