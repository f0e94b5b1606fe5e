// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

/// What a person decided about a conflict.
package enum ConflictChoice: Hashable, Sendable {
    /// Our content takes the place of the remote's version.
    case mine
    /// The remote's version stays, and our copy goes.
    case theirs
    /// Both stay, each under its name.
    case both
}

/// What came of a decision.
package enum ConflictOutcome: Hashable, Sendable {
    case settled
    /// The conflict is not known any more.
    case gone
    /// Nothing was changed, for this reason.
    case refused(String)
}

extension Journal {
    /// Settles a conflict as a person decided.
    ///
    /// `copyRemote` is what the remote has at the copy; only where no row tells more. With `mine` the copy is moved to the
    /// conflict's path as rename(2) does it, but on condition that the remote still has the version there that made the
    /// conflict: another one makes another conflict. `isFolder` tells whether the remote has a folder by that name now.
    package func resolve(
        _ conflict: ConflictRecord,
        _ choice: ConflictChoice,
        copyRemote: @autoclosure () throws(JournalError) -> RemoteState,
        isFolder: Bool = false,
        now: Timestamp = .now()
    ) throws(JournalError) -> ConflictOutcome {
        try change(at: now) { change throws(JournalError) in
            guard try change.tables.isConflict(conflict.id, conflict.copy) else { return .gone }
            let row = try change.tables.node(at: conflict.copy)
            if row?.isOpen == true { return .refused("\(conflict.copy) is being written") }
            switch choice {
            case .both: break
            case .theirs: try change.removeCopy(conflict, row, copyRemote)
            case .mine:
                if let reason = try change.moveCopy(conflict, row, copyRemote, isFolder) { return .refused(reason) }
            }
            try change.tables.settle(conflict)
            return .settled
        }
    }
}

extension Change {
    /// Removes the copy, unless somebody else did, or made something else of it.
    fileprivate func removeCopy(
        _ conflict: ConflictRecord,
        _ row: JournalNode?,
        _ copyRemote: () throws(JournalError) -> RemoteState
    ) throws(JournalError) {
        if let row {
            guard row.kind == .file || row.kind == .symbolicLink else { return }
            return try bury(row.path, try vacate(row.path, .absent))
        }
        let remote = try copyRemote()
        guard case .file = remote else { return }
        try bury(conflict.copy, try vacate(conflict.copy, remote))
    }

    /// Moves the copy to the conflict's path; returns why not.
    fileprivate func moveCopy(
        _ conflict: ConflictRecord,
        _ row: JournalNode?,
        _ copyRemote: () throws(JournalError) -> RemoteState,
        _ isFolder: Bool
    ) throws(JournalError) -> String? {
        let source = row == nil ? try copyRemote() : .absent
        switch (row?.kind, source) {
        case (.file, _), (.symbolicLink, _), (nil, .file): break
        default: return "\(conflict.copy) is not there any more"
        }
        let target = try tables.node(at: conflict.path)
        if isFolder || target?.kind == .directory { return "\(conflict.path) is a folder now" }
        if let target, !target.isTombstone {
            return "\(conflict.path) has changes of its own that are not remote yet; flush or cancel them first"
        }
        // Without a known version any object there makes another conflict, whose version is known then.
        let met = conflict.version.map { RemoteState.file($0, FileAttributes.none) } ?? .absent
        _ = try move(conflict.copy, conflict.path, source, met)
        return nil
    }
}

extension Tables {
    fileprivate func isConflict(_ id: Int64, _ copy: ObjectKey) throws(JournalError) -> Bool {
        try connection.exists("SELECT 1 FROM conflict WHERE id = ? AND copy = ?", [.integer(id), .key(copy)])
    }

    /// Forgets a conflict; what was its copy is a file like others.
    fileprivate func settle(_ conflict: ConflictRecord) throws(JournalError) {
        try forgetConflict(conflict.copy)
        for path in [conflict.copy, conflict.path] {
            guard var row = try node(at: path), row.conflictOf == conflict.path else { continue }
            row.conflictOf = nil
            try update(row)
        }
    }
}
