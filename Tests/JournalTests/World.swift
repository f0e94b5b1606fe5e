// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import TestSupport

/// A mount, a flusher and a remote around a real journal, and next to them what the user must see.
///
/// The remote refuses what a hierarchical store refuses and every commit whose
/// condition does not hold; as nobody else writes to it, each such refusal that
/// the journal's rules do not explain is a failure.
final class World {
    struct Object {
        var version: ObjectVersion
        var content: [UInt8]
        var attributes: FileAttributes
    }

    enum Entry: Equatable {
        case file([UInt8], FileAttributes)
        case link(ObjectKey, FileAttributes)
        case directory(FileAttributes)
    }

    /// A file the mount has open for writing.
    struct OpenFile {
        var node: NodeID
        var generation: GenerationID
        var map: ContentMap
        var content: [UInt8]
        /// What close() or fsync() last acknowledged; nil for a new file.
        var acknowledged: [UInt8]?
        /// What its writer knows of its bytes.
        var checksums = ChecksumList()
    }

    let scratch: Scratch
    var journal: Journal
    var random: SeededGenerator
    var objects: [ObjectKey: Object] = [:]
    var markers: [ObjectKey: FileAttributes] = [:]
    var model: [ObjectKey: Entry] = [:]
    /// By the first name of a file with several.
    var open: [ObjectKey: OpenFile] = [:]
    /// Which file a name is of: several may be of one.
    var fileOf: [ObjectKey: Int] = [:]
    var lastFile = 0
    /// Copies for other names of a file are made seldom, so that older ones last.
    var keepsOlderCopies = false
    /// What the remote last got of a file.
    var committed: [Int: [UInt8]] = [:]
    /// A file made by the last step and not closed, which may have no row yet.
    var newest: ObjectKey?
    /// Commits that the remote has made and the journal does not know of.
    var landed: [TransferID: ObjectVersion] = [:]
    /// The attributes and link texts that went out with transfers, and the files that these are of.
    var sent: [TransferID: (attributes: FileAttributes, target: ObjectKey?, file: Int?)] = [:]
    /// Folder markers being put.
    var puttingMarkers: [JournalNode] = []
    var versions = 0
    /// The remote's tags are made of the bytes, as those of most servers: new attributes do not change them.
    let hasTagsOfBytes: Bool
    var clock: Int64 = 100
    /// How long the log was when it was last made durable, as far as that is known.
    var durableLog: Int64 = 0
    /// How often that was.
    var durableCommits: Int64 = 0
    /// The power fails, or has failed: what the remote has may be newer than what the journal knows.
    var losesPower = false
    var trace: [String] = []
    /// How often each interesting thing happened, so that a run can be shown not to be vacuous.
    var seen: [String: Int] = [:]

    static let names = ["a", "b", "c"]

    init(seed: UInt64) throws {
        scratch = try Scratch()
        random = SeededGenerator(seed: seed)
        hasTagsOfBytes = seed % 2 == 0
        journal = try Journal.recovering(directory: scratch.path, boot: "one").journal
        populate()
    }

    /// A world with the same remote, whose state directory is still to be filled.
    init(copying other: World) throws {
        scratch = try Scratch()
        random = other.random
        journal = other.journal
        objects = other.objects
        markers = other.markers
        (landed, sent, losesPower) = (other.landed, other.sent, other.losesPower)
        trace = other.trace
        versions = other.versions
        hasTagsOfBytes = other.hasTagsOfBytes
        clock = other.clock
    }

    private func populate() {
        for path in ["a", "b", "d/a", "d/b", "d/e/a", "f/a"] where random.chance(60) {
            let key = ObjectKey(path)
            let content = bytes(random.below(20))
            let attributes = FileAttributes.file(0o600, at: tick())
            objects[key] = Object(version: newVersion(content), content: content, attributes: attributes)
            model[key] = .file(content, attributes)
            let file = newFile()
            (fileOf[key], committed[file]) = (file, content)
            for folder in ancestors(of: key) { model[folder] = .directory(defaultDirectory) }
        }
        for folder in ["d", "g"] where random.chance(50) && objects[ObjectKey(folder)] == nil {
            let attributes = FileAttributes.directory(0o700)
            markers[ObjectKey(folder)] = attributes
            model[ObjectKey(folder)] = .directory(attributes)
        }
    }

    let defaultDirectory = FileAttributes.directory()

    func note(_ text: String) {
        trace.append(text)
        seen[String(text.prefix { $0 != " " }), default: 0] += 1
    }

    func tick() -> Int64 {
        clock += 1
        return clock
    }

    func newVersion(_ content: [UInt8]) -> ObjectVersion {
        versions += 1
        let tag = hasTagsOfBytes ? content.map { String($0, radix: 16) }.joined(separator: ".") : "v\(versions)"
        return .tagged(tag, Int64(content.count))
    }

    /// A byte that nobody writes: what stands in a file for bytes that power loss tore.
    static let torn: UInt8 = 0xEE

    func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 1..<Self.torn, using: &random) } }

    func ancestors(of path: ObjectKey) -> [ObjectKey] {
        var result: [ObjectKey] = []
        var folder = path.parent
        while !folder.isRoot {
            result.append(folder)
            folder = folder.parent
        }
        return result
    }

    // MARK: what the remote has

    func remoteState(_ path: ObjectKey) -> RemoteState {
        if let marker = markers[path] { return .directory(hasMarker: true, marker) }
        if isImplied(path) { return .directory(hasMarker: false, defaultDirectory) }
        guard let object = objects[path] else { return .absent }
        guard object.attributes.isSymbolicLink else { return .file(object.version, object.attributes) }
        return .file(object.version, object.attributes, target: ObjectKey(bytes: object.content))
    }

    func isImplied(_ path: ObjectKey) -> Bool {
        objects.keys.contains { $0 != path && $0.isInside(path) }
            || markers.keys.contains { $0 != path && $0.isInside(path) }
    }

    /// Everything the remote has below a folder, implied folders included.
    func remoteEntries(below folder: ObjectKey) -> [RemoteEntry] {
        remotePaths().filter { $0 != folder && $0.isInside(folder) }
            .map { RemoteEntry(path: $0, state: remoteState($0)) }
    }

    func remotePaths() -> Set<ObjectKey> {
        var paths = Set(objects.keys).union(markers.keys)
        for path in paths { paths.formUnion(ancestors(of: path)) }
        return paths
    }

    // MARK: what a reader sees

    func view(_ path: ObjectKey) throws -> Entry? {
        if let first = try journal.linked(at: path)?.first { return try view(first) }
        guard let node = try journal.node(at: path) else { return viewRemote(path) }
        switch node.kind {
        case .tombstone: return nil
        case .hardLink: throw Failure("\(path): a further name of no file")
        case .directory: return .directory(node.attributes)
        case .symbolicLink:
            if let target = node.target { return .link(target, node.attributes) }
            guard let generation = node.generation else { throw Failure("\(path): a link without text") }
            return .link(ObjectKey(bytes: try read(generation)), node.attributes)
        case .file:
            guard var generation = node.generation else { throw Failure("\(path): a file without content") }
            if let file = open[path] { generation.content = file.map }
            return .file(try read(generation), node.attributes)
        }
    }

    func viewRemote(_ path: ObjectKey) -> Entry? {
        switch remoteState(path) {
        case .absent, .directory(_, nil), .file(_, nil, _): nil
        case .directory(_, let attributes?): .directory(attributes)
        case .file(_, let attributes?, let target?): .link(target, attributes)
        case .file(_, let attributes?, nil): .file(objects[path]?.content ?? [], attributes)
        }
    }

    /// The bytes of a generation from where the journal says they are.
    func read(_ generation: Generation) throws -> [UInt8] {
        var result: [UInt8] = []
        let all = ByteRange(0, generation.size)
        for segment in try journal.segments(of: generation, in: all) {
            result += try bytes(of: segment)
        }
        guard Int64(result.count) == generation.size else { throw Failure("segments do not cover the file") }
        return result
    }

    func bytes(of segment: ContentSegment) throws -> [UInt8] {
        let count = Int(segment.range.count)
        switch segment.source {
        case .zeros: return [UInt8](repeating: 0, count: count)
        case .staging(let id):
            var buffer = [UInt8](repeating: 0, count: count)
            let file = try journal.openStaging(id, creating: false)
            let read = try buffer.withUnsafeMutableBytes { try file.read(into: $0, at: segment.range.lower) }
            guard read == count else { throw Failure("staging file \(id) is too short") }
            return buffer
        case .remote(let key, let version):
            guard let object = try source(key, version) else { throw Failure("\(key) has no version \(version)") }
            guard object.count >= segment.range.upper else { throw Failure("\(key) is shorter than \(version)") }
            return Array(object[Int(segment.range.lower)..<Int(segment.range.upper)])
        }
    }

    /// The content of a version that must still be there, or be the same as one that has just landed on it.
    func source(_ key: ObjectKey, _ version: ObjectVersion) throws -> [UInt8]? {
        guard let object = objects[key] else { return nil }
        if object.version.isSame(as: version) { return object.content }
        let isJustChanged = try journal.transfers().contains { $0.transfer.key == key && landed[$0.transfer.id] != nil }
        return isJustChanged ? object.content : nil
    }

    /// Compares all that a reader sees with what the user must see.
    func check() throws {
        defer { newest = nil }
        var paths = remotePaths().union(model.keys)
        for node in try journal.descendants(of: .root) { paths.insert(node.path) }
        for path in paths {
            let entry = try view(path)
            if entry != model[path] {
                throw Failure("\(path): seen \(String(describing: entry)), wanted \(String(describing: model[path]))")
            }
        }
    }
}
