// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal

extension RowWork {
    /// Throws `blocked` unless nothing must happen before the row.
    func clearBlockers(of node: JournalNode) throws(WorkFailure) {
        let blockers = try journal { (journal) throws(JournalError) in try journal.blockers(of: node) }
        for blocker in blockers {
            switch blocker {
            case .open: throw .blocked(nil, "it is being written")
            case .transfer(let id): try clear(id, for: node)
            case .generation(let id):
                if let transfer = session.transfer(showing: id) { try clear(transfer.id, for: node) }
            case .source(let other): try waitInCircle(other, of: node, "its old content is being copied")
            case .arrival(let other): throw .blocked(other, "what has its old content now is not at the remote yet")
            case .descendant(let other): try waitInCircle(other, of: node, "something in it must go first")
            case .ancestor(let other): try waitInCircle(other, of: node, "a folder above it is a file at the remote")
            case .link(let other): throw .blocked(other, "its file is sent by another name first")
            case .folder(let other): throw .blocked(other, "a folder above it is made first")
            }
        }
        if !blockers.isEmpty { throw .changed }
    }

    /// Waits for a transfer that somebody works on, or will; settles one that nobody wants.
    private func clear(_ id: TransferID, for node: JournalNode) throws(WorkFailure) {
        guard let standing = session.transfer(id) else { return }
        if let owner = try owner(of: standing, besides: node) {
            throw .blocked(owner, "what was begun under this name, and has another one now, is sent to its end first")
        }
        let transfer = try claim(id, or: "an older upload of it ends first")
        defer { session.release(id) }
        try TransferCleanup(work: self).settle(transfer)
    }

    /// The row that has moved away from the key of its upload and goes on with it all the same.
    ///
    /// What the remote has of that is not thrown away. nil also where nobody knows when it will, or it waits for `node` itself.
    private func owner(of transfer: Transfer, besides node: JournalNode) throws(WorkFailure) -> NodeID? {
        guard transfer.node != node.id else { return nil }
        let found = try journal { (journal) throws(JournalError) in try journal.node(transfer.node) }
        guard let owner = found, owner.path != transfer.key, session.transfer(of: owner)?.id == transfer.id,
            goesOnElsewhere(transfer, owner), !isHeldByPerson(owner), !settings.isHeld(owner.id)
        else { return nil }
        // For as long as the old content is read it is not to be replaced under its name, which it need not be.
        if transfer.phase != .committing, case .version(let version) = transfer.base,
            session.readers.areWaitedFor(transfer.key, version)
        {
            return nil
        }
        let isInCircle = try journal { (journal) throws(JournalError) in try journal.waits(owner.id, for: node.id) }
        return isInCircle ? nil : owner.id
    }

    /// Whether a row stands still until a person does something: whoever waited for it would wait as long.
    func isHeldByPerson(_ row: JournalNode) -> Bool {
        let isPaused = row.schedule.isPaused || !session.pauses.holding(row.path).isEmpty
        return isPaused || row.isOpen || row.schedule.attention != nil
    }

    /// Waits for a row that still needs an object as the source of a copy, or has one in the way.
    ///
    /// Names that change places wait for each other, and so does a file that moved into a new folder of its
    /// old name, or took the place of the folder that it was in: the smallest content of the circle is then
    /// fetched here, so that it needs its source no more.
    private func waitInCircle(_ other: NodeID, of node: JournalNode, _ reason: String) throws(WorkFailure) {
        let circle = try circle(from: node, through: other)
        let smallest = circle.min { ($0.size, $0.id) < ($1.size, $1.id) }
        // Each member looks from itself, so that all agree, but only some of a very long one look at all.
        let breaksLong = job.closesLongCircle && !circle.isEmpty && node.generation != nil
        if smallest?.id == node.id || breaksLong {
            try fetchWhole(node)
            // Those that wait for this row may go on now.
            throw .changed
        }
        throw .blocked(other, reason)
    }

    /// The rows with content that wait for each other in a circle with `node`; empty when there is none.
    private func circle(from node: JournalNode, through next: NodeID) throws(WorkFailure) -> [JournalNode] {
        var members = [node]
        var seen: Set<NodeID> = [node.id]
        var current = next
        while members.count <= Scheduler.longCircle || job.closesLongCircle {
            let id = current
            guard seen.insert(id).inserted,
                let row = try journal({ (journal) throws(JournalError) in try journal.node(id) })
            else { return [] }
            members.append(row)
            let blockers = try journal { (journal) throws(JournalError) in try journal.blockers(of: row) }
            guard let following = blockers.firstOfCircle else { return [] }
            if following == node.id { return members.filter { $0.generation != nil } }
            current = following
        }
        return []
    }

    /// Brings all bytes of a row's content here; its transfer begins with that.
    private func fetchWhole(_ node: JournalNode) throws(WorkFailure) {
        try checkSafe(node)
        guard let begun = try transfer(for: node, method: .put) else { throw .changed }
        let transfer = try claim(begun.id, or: "its content is being fetched")
        defer { session.release(transfer.id) }
        _ = try Hydration(work: self).complete(transfer)
    }
}

extension [Blocker] {
    /// The row that this one waits for where a circle is possible.
    fileprivate var firstOfCircle: NodeID? {
        for blocker in self {
            switch blocker {
            case .source(let id), .ancestor(let id), .descendant(let id): return id
            default: continue
            }
        }
        return nil
    }
}
