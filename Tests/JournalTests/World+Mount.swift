// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import TestSupport

extension World {
    /// Does one random thing as the mount does it, when it is possible.
    func mountStep() throws {
        switch random.below(21) {
        case 0...2: try create()
        case 3...5: try write()
        case 6...7: try truncate()
        case 8: try close()
        case 9...10: try synchronize()
        case 11...12: try changeAttributes()
        case 13: try remove()
        case 14: try makeDirectory()
        case 15: try removeDirectory()
        case 16...17: try rename()
        case 19: try linkFile()
        case 18: try random.chance(50) ? link() : exchange()
        default: try renameDirectory()
        }
    }

    var files: [ObjectKey] {
        model.compactMap { if case .file = $0.value { $0.key } else { nil } }.sorted()
    }

    var filesAndLinks: [ObjectKey] {
        model.compactMap { if case .directory = $0.value { nil } else { $0.key } }.sorted()
    }

    var directories: [ObjectKey] {
        model.compactMap { if case .directory = $0.value { $0.key } else { nil } }.sorted()
    }

    /// A path in an existing folder with nothing at it.
    func freePath() -> ObjectKey? {
        guard let folder = random.pick(directories + [.root]), let name = random.pick(Self.names) else { return nil }
        let path = folder.appending(ObjectKey(name))
        return model[path] == nil && path.bytes.count < 12 ? path : nil
    }

    private func children(of folder: ObjectKey) -> [ObjectKey] {
        model.keys.filter { $0 != folder && $0.isInside(folder) }
    }

    private func create() throws {
        guard let path = freePath() else { return }
        note("create \(path)")
        let attributes = FileAttributes.file(0o600, at: tick())
        let isVacant = try journal.node(at: path) == nil && remoteState(path) == .absent
        let node =
            isVacant && random.chance(70)
            ? try journal.createFileLater(at: path, attributes: attributes)
            : try journal.createFile(at: path, attributes: attributes, remote: remoteState(path))
        guard let generation = node.generation else { throw Failure("a new file has no generation") }
        model[path] = .file([], attributes)
        fileOf[path] = newFile()
        open[path] = OpenFile(node: node.id, generation: generation.id, map: generation.content, content: [])
        if random.chance(20) { try changeAttributes(at: path, ofNew: node.id) }
        if random.chance(60) { try writeRandomly(path) }
        if random.chance(60) { try seal(path) }
        for _ in 0..<2 where random.chance(20) { try changeAttributes(at: path, ofNew: node.id) }
        if isVacant, open[path] != nil { newest = path }
    }

    private func write() throws {
        guard let path = try random.pick(files).map(first) else { return }
        note("write \(allNames(of: path))")
        try openForWriting(path)
        try writeRandomly(path)
        if random.chance(60) { try seal(path) }
    }

    func openForWriting(_ path: ObjectKey, replacing: Bool = false) throws {
        guard open[path] == nil, case .file(let content, _) = model[path] else { return }
        let isChecked = try journal.node(at: path)?.generation?.checksums != ChecksumState.none
        let node = try journal.beginWriting(at: path, remote: remoteState(path), replacing: replacing)
        guard let generation = node.generation, !generation.isSealed else { throw Failure("\(path) is not open") }
        if isChecked { durableLog = try logSize() }
        open[path] = OpenFile(
            node: node.id,
            generation: generation.id,
            map: generation.content,
            content: content,
            acknowledged: content,
            checksums: generation.isReopened ? try journal.checksums(of: generation.id) : ChecksumList()
        )
    }

    func writeRandomly(_ path: ObjectKey) throws {
        guard var file = open[path] else { return }
        let start = random.below(file.content.count + 6)
        let data = bytes(1 + random.below(8))
        let staging = try journal.openStaging(file.generation, creating: true)
        try data.withUnsafeBytes { try staging.write($0, at: Int64(start)) }
        file.map.write(ByteRange(offset: Int64(start), count: Int64(data.count)))
        file.checksums.forget(ByteRange(offset: Int64(start), count: Int64(data.count)))
        let end = start + data.count
        if file.content.count < end { file.content += [UInt8](repeating: 0, count: end - file.content.count) }
        file.content.replaceSubrange(start..<end, with: data)
        open[path] = file
        updateModel(path, file.content, nil)
    }

    private func truncate() throws {
        guard let path = try random.pick(files).map(first) else { return }
        try cut(path, all: random.chance(40))
    }

    func cut(_ path: ObjectKey, all cutsAll: Bool) throws {
        note("truncate \(allNames(of: path))")
        try openForWriting(path, replacing: cutsAll)
        if cutsAll { try setAside(path) }
        guard var file = open[path] else { return }
        let size = cutsAll ? 0 : random.below(file.content.count + 8)
        file.map.truncate(to: Int64(size))
        file.checksums.forget(ByteRange(Int64(size), .max))
        try journal.openStaging(file.generation, creating: true).truncate(to: Int64(size))
        file.content =
            Array(file.content.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - file.content.count))
        open[path] = file
        updateModel(path, file.content, nil)
        if random.chance(60) { try seal(path) }
    }

    /// What was synced of an open file stays until its new content is.
    private func setAside(_ path: ObjectKey) throws {
        guard var file = open[path] else { return }
        guard let new = try journal.setAsideSynced(file.node, file.generation) else { return }
        note("set-aside \(path)")
        file.generation = new.id
        file.map = new.content
        file.checksums = ChecksumList()
        open[path] = file
    }

    func updateModel(_ path: ObjectKey, _ content: [UInt8], _ modified: Timestamp?) {
        guard case .file(_, var attributes) = model[path] else { return }
        if let modified { attributes.modified = modified }
        setModel(path, .file(content, attributes))
    }

    private func close() throws {
        guard let path = random.pick(open.keys.sorted()) else { return }
        note("close \(allNames(of: path))")
        try seal(path)
    }

    func seal(_ path: ObjectKey) throws {
        guard let file = open.removeValue(forKey: path) else { return }
        let modified = random.chance(70) ? Timestamp(seconds: tick()) : nil
        let isSealed = try journal.seal(
            file.node,
            file.generation,
            content: file.map,
            modified: modified,
            checksums: file.checksums
        )
        guard isSealed else { throw Failure("\(path) cannot be sealed") }
        updateModel(path, file.content, modified)
    }

    /// fsync.
    private func synchronize() throws {
        guard let path = random.pick(open.keys.sorted()), var file = open[path] else { return }
        note("fsync \(allNames(of: path))")
        let modified = Timestamp(seconds: tick())
        guard try journal.record(file.node, file.generation, content: file.map, modified: modified, durable: true)
        else {
            throw Failure("\(path) cannot be recorded")
        }
        file.acknowledged = file.content
        open[path] = file
        updateModel(path, file.content, modified)
    }

    private func changeAttributes() throws {
        guard let path = try random.pick(model.keys.sorted()).map(first) else { return }
        try changeAttributes(at: path)
    }

    /// `new`: a file that may have no row yet.
    private func changeAttributes(at path: ObjectKey, ofNew new: NodeID? = nil) throws {
        guard let entry = model[path] else { return }
        note("chmod \(allNames(of: path))")
        let changes = AttributeChanges(
            permissions: random.chance(50) ? random.pick([0o600, 0o644, 0o755]) : nil,
            modified: random.chance(50) ? Timestamp(seconds: tick()) : nil,
            extended: random.chance(30) ? ExtendedAttributes(text: random.pick(["", "%7B%7D", "other"]) ?? "") : nil
        )
        let isChanged = new.map { journal.setAttributesOfNewFile($0, at: path, changes) } ?? false
        if !isChanged { try journal.setAttributes(at: path, remote: remoteState(path), changes) }
        switch entry {
        case .file(let content, let old): setModel(path, .file(content, old.applying(changes)))
        case .link(let target, let old): setModel(path, .link(target, old.applying(changes)))
        case .directory(let old): model[path] = .directory(old.applying(changes))
        }
    }

    private func remove() throws {
        guard let path = random.pick(filesAndLinks) else { return }
        try unlink(path)
    }

    func unlink(_ path: ObjectKey) throws {
        note("unlink \(allNames(of: path))")
        let heir = try journal.heir(of: path)
        try keepingFolder(of: path) {
            try journal.remove(at: path, remote: remoteState(path))
            model[path] = nil
            fileOf[path] = nil
            let file = open.removeValue(forKey: path)
            if let heir { open[heir] = file }
        }
    }

    private func makeDirectory() throws {
        guard let path = freePath() else { return }
        note("mkdir \(path)")
        let attributes = FileAttributes.directory(0o750)
        _ = try journal.createDirectory(at: path, attributes: attributes, remote: remoteState(path))
        model[path] = .directory(attributes)
    }

    private func removeDirectory() throws {
        guard let path = random.pick(directories.filter { children(of: $0).isEmpty }) else { return }
        note("rmdir \(path)")
        try keepingFolder(of: path) {
            try journal.remove(at: path, remote: remoteState(path))
            model[path] = nil
        }
    }

    private func link() throws {
        guard let path = freePath() else { return }
        note("symlink \(path)")
        let target = ObjectKey(bytes: bytes(5))
        _ = try journal.createSymbolicLink(
            at: path,
            target: target,
            attributes: .link,
            remote: remoteState(path)
        )
        model[path] = .link(target, .link)
        fileOf[path] = newFile()
    }

    private func rename() throws {
        guard let source = random.pick(filesAndLinks) else { return }
        guard let target = random.chance(50) ? freePath() : random.pick(filesAndLinks), target != source else { return }
        if let file = fileOf[source], fileOf[target] == file { return }
        note("rename \(allNames(of: source)) \(allNames(of: target))")
        let heir = try journal.heir(of: target)
        try keepingFolder(of: source) {
            try journal.rename(
                from: source,
                to: target,
                sourceRemote: remoteState(source),
                targetRemote: remoteState(target)
            )
            model[target] = model.removeValue(forKey: source)
            fileOf[target] = fileOf.removeValue(forKey: source)
            let (moved, replaced) = (open.removeValue(forKey: source), open.removeValue(forKey: target))
            open[target] = moved
            if let heir { open[heir] = replaced }
        }
    }

    private func exchange() throws {
        guard let first = random.pick(model.keys.sorted()), let second = random.pick(model.keys.sorted()),
            !first.isInside(second), !second.isInside(first)
        else { return }
        let folders = directories
        if folders.contains(first) || folders.contains(second) { return try exchangeTrees(first, second) }
        if let file = fileOf[first], fileOf[second] == file { return }
        note("exchange \(allNames(of: first)) \(allNames(of: second))")
        try journal.exchange(
            first,
            second,
            firstRemote: remoteState(first),
            secondRemote: remoteState(second)
        )
        (model[first], model[second]) = (model[second], model[first])
        (open[first], open[second]) = (open[second], open[first])
        (fileOf[first], fileOf[second]) = (fileOf[second], fileOf[first])
    }

    private func exchangeTrees(_ first: ObjectKey, _ second: ObjectKey) throws {
        let growth = abs(first.bytes.count - second.bytes.count)
        let longest = (children(of: first) + children(of: second)).map(\.bytes.count).max() ?? 0
        guard longest + growth < 14 else { return }
        note("exchange trees \(first) \(second)")
        try keepingFolder(of: first) {
            try keepingFolder(of: second) {
                try journal.exchangeTrees(
                    first,
                    second,
                    firstRemote: remoteState(first),
                    secondRemote: remoteState(second),
                    firstEntries: remoteEntries(below: first),
                    secondEntries: remoteEntries(below: second)
                )
            }
        }
        let ones = [first] + children(of: first)
        let twos = [second] + children(of: second)
        let moves =
            ones.map { ($0, $0.moved(from: first, to: second)) } + twos.map { ($0, $0.moved(from: second, to: first)) }
        let (oldModel, oldOpen, oldFiles) = (model, open, fileOf)
        for (path, _) in moves {
            model[path] = nil
            open[path] = nil
            fileOf[path] = nil
        }
        for case (let path, let moved?) in moves {
            model[moved] = oldModel[path]
            open[moved] = oldOpen[path]
            fileOf[moved] = oldFiles[path]
        }
    }

    private func renameDirectory() throws {
        guard let source = random.pick(directories) else { return }
        let empty = directories.filter { children(of: $0).isEmpty && !$0.isInside(source) && !source.isInside($0) }
        guard let target = random.chance(70) ? freePath() : random.pick(empty), !target.isInside(source) else { return }
        guard target.bytes.count < 8 else { return }
        note("mvdir \(source) \(target)")
        try keepingFolder(of: source) {
            try journal.renameDirectory(
                from: source,
                to: target,
                sourceRemote: remoteState(source),
                targetRemote: remoteState(target),
                entries: remoteEntries(below: source)
            )
            for path in [source] + children(of: source) {
                guard let moved = path.moved(from: source, to: target) else { continue }
                model[moved] = model.removeValue(forKey: path)
                open[moved] = open.removeValue(forKey: path)
                fileOf[moved] = fileOf.removeValue(forKey: path)
            }
        }
    }

    /// Gives the folder that something is taken from a row when the remote only implies it, as the mount does.
    private func keepingFolder(of path: ObjectKey, _ body: () throws -> Void) throws {
        let folder = path.parent
        if !folder.isRoot, try journal.node(at: folder) == nil,
            case .directory(hasMarker: false, let attributes?) = remoteState(folder)
        {
            _ = try journal.createDirectory(at: folder, attributes: attributes, remote: remoteState(folder))
        }
        try body()
    }
}
