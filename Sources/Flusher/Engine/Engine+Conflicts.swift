// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Control
internal import Database
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform

/// Conflicts that wait for a person, and what a person decides about them.
extension Engine {
    private typealias Found = (session: VolumeSession, conflict: ConflictRecord)

    /// How many conflicts one answer tells of, with two paths each: more might not fit into a frame.
    private static let conflictLimit = 5_000

    func conflictReports(_ selection: UploadSelection) -> [ConflictReport] {
        let (found, _) = conflicts(selection)
        return found.prefix(Self.conflictLimit).map { ConflictReport($0.conflict, $0.session) }
    }

    /// Carries out a decision about every conflict of a selection.
    func resolve(_ choice: ConflictReport.Choice, _ selection: UploadSelection) -> ControlReply {
        var (found, problems) = conflicts(selection)
        if choice == .mine { problems += removeAmbiguous(&found) }
        var resolved: [ConflictReport] = []
        for (session, conflict) in found {
            do throws(JournalError) {
                switch try resolve(conflict, ConflictChoice(choice), session) {
                case .settled: resolved.append(ConflictReport(conflict, session))
                case .gone: break
                case .refused(let reason): problems.append(reason)
                }
            } catch {
                problems.append("\(conflict.copy): \(error)")
            }
            wake(session.id)
            publish(.changed(volume: session.id))
        }
        return .resolved(conflicts: resolved, refused: problems)
    }

    private func conflicts(_ selection: UploadSelection) -> (found: [Found], problems: [String]) {
        var found: [Found] = []
        var problems: [String] = []
        for session in sessions(selection) {
            do throws(JournalError) {
                found += try session.journal.conflicts().filter { selection.means($0) }.map { (session, $0) }
            } catch {
                problems.append("\(session.id): \(error)")
            }
        }
        let failed = state.inspect { $0.failed }
        problems += failed.filter { selection.means($0.key) }.sorted { $0.key < $1.key }.map {
            "\($0.key): \($0.value)"
        }
        return (found, problems)
    }

    /// Of several copies of one file only one can take its place: takes them out, and says what to do.
    private func removeAmbiguous(_ found: inout [Found]) -> [String] {
        let byPath = Dictionary(grouping: found) { "\($0.session.id)/\($0.conflict.path)" }
        let ambiguous = byPath.values.filter { $0.count > 1 }
        found.removeAll { one in
            ambiguous.contains { $0.contains { $0.session === one.session && $0.conflict.id == one.conflict.id } }
        }
        return ambiguous.compactMap { group in
            group.first.map { first in
                let copies = group.map { "'\($0.conflict.copy)'" }.joined(separator: ", ")
                return "\(first.conflict.path): there are \(group.count) copies of it; name the one to keep: \(copies)"
            }
        }.sorted()
    }

    private func resolve(
        _ conflict: ConflictRecord,
        _ choice: ConflictChoice,
        _ session: VolumeSession
    ) throws(JournalError) -> ConflictOutcome {
        let isFolder = session.catalog.known(conflict.path)?.kind == .directory
        var asked: RemoteState?
        for _ in 0..<2 {
            do throws(JournalError) {
                return try session.journal.resolve(
                    conflict,
                    choice,
                    // Read within the transaction: an upload writes the catalog before its row goes.
                    copyRemote: try Self.remoteState(of: conflict.copy, asked, session),
                    isFolder: isFolder
                )
            } catch {
                guard error.kind == .notFound, asked == nil else { throw error }
            }
            guard let answer = ask(conflict.copy, session) else {
                return .refused("\(conflict.copy) is at the remote, which does not answer; try again when it does")
            }
            asked = answer
        }
        return .gone
    }

    /// What the remote has at a path, as the catalog knows it, or as it answered.
    ///
    /// `.notFound`: it has to be asked.
    private static func remoteState(
        of path: ObjectKey,
        _ asked: RemoteState?,
        _ session: VolumeSession
    ) throws(JournalError) -> RemoteState {
        if let entry = session.catalog.known(path) {
            if entry.kind != .file { return .absent }
            if let version = entry.version, let metadata = entry.metadata {
                return .file(version, FileAttributes(metadata, version), target: entry.target)
            }
        }
        guard let asked else { throw JournalError(.notFound, "the remote has to be asked") }
        return asked
    }

    /// nil when it does not answer.
    private func ask(_ path: ObjectKey, _ session: VolumeSession) -> RemoteState? {
        do throws(StoreError) {
            guard let status = try session.store?.status(of: path, cancellation: nil) else { return nil }
            return .file(status.version, FileAttributes(status.metadata, status.version))
        } catch {
            return error.cause == .notFound ? .absent : nil
        }
    }
}

extension UploadSelection {
    /// Whether a conflict is meant, by its path or by that of its copy.
    fileprivate func means(_ conflict: ConflictRecord) -> Bool {
        guard !paths.isEmpty else { return ids.isEmpty }
        return paths.contains { conflict.path.isInside(ObjectKey($0)) || conflict.copy.isInside(ObjectKey($0)) }
    }
}

extension ConflictReport {
    fileprivate init(_ conflict: ConflictRecord, _ session: VolumeSession) {
        let row = try? session.journal.node(at: conflict.copy)
        self.init(
            volume: session.id,
            path: conflict.path.string,
            copy: conflict.copy.string,
            detectedAt: conflict.detectedAt.rfc3339,
            remote: conflict.remote,
            isUploaded: row == nil
        )
    }
}

extension ConflictChoice {
    fileprivate init(_ choice: ConflictReport.Choice) {
        switch choice {
        case .mine: self = .mine
        case .theirs: self = .theirs
        case .both: self = .both
        }
    }
}

extension FileAttributes {
    /// The attributes of a copy of ours, which has them all, or of what somebody put in its place.
    init(_ metadata: ObjectMetadata, _ version: ObjectVersion) {
        self.init(
            mode: metadata.mode ?? FileAttributes.regularType | 0o644,
            uid: metadata.uid ?? getuid(),
            gid: metadata.gid ?? getgid(),
            modified: metadata.modified ?? version.lastModified ?? .now(),
            device: metadata.device ?? 0,
            extended: metadata.extended
        )
    }
}
