// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

extension Journal {
    /// Changes attributes of a file, folder or link and returns the row; nil when nothing differs from the remote.
    ///
    /// Content is never touched: a clean file gets a row whose content is the remote's.
    @discardableResult
    package func setAttributes(
        at path: ObjectKey,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        _ changes: AttributeChanges,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode? {
        try change(at: now) { change throws(JournalError) in
            let remote = try remote()
            var node = try change.materialize(path, remote)
            let wanted = node.attributes.applying(changes)
            if wanted != node.attributes {
                node.attributes = wanted
                node.attributeSequence = change.sequence
                node.touch(change)
                try change.tables.update(node)
            }
            return try change.tables.removeIfClean(node, remote) ? nil : node
        }
    }
}
