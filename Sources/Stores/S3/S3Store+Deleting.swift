// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CurlTransport
internal import HTTPWire
package import ObjectStore
internal import Platform
internal import Synchronization

extension S3Store {
    /// After so many deletions under a condition it is tried whether the server goes by it, which takes three requests.
    private static let worthTrying = 8

    package func delete(_ key: ObjectKey, condition: WriteCondition) throws(StoreError) {
        // Where a marker cannot be, the name without the slash may be a file's.
        if key.bytes.last == 0x2F, capabilities.folderMarkers == false { return }
        let wanted = condition == .absent ? .none : condition
        // Most servers ignore conditions on DELETE: those are asked first.
        let looksFirst = wanted == .none ? false : try !checksDeletions()
        try conditionally(key, wanted, of: .deletion, looksFirst: looksFirst) { condition throws(StoreError) in
            var request = S3Request("DELETE", client.fullKey(key))
            conditions.inspect { $0.add(condition, to: &request.fields) }
            request.isRepeatable = false
            do throws(StoreError) {
                _ = try client.send(request)
            } catch {
                guard error.cause == .notFound, condition == .none else { throw error }
            }
        }
    }

    /// Whether the server itself deletes only the version that is named.
    private func checksDeletions() throws(StoreError) -> Bool {
        if let known = capabilities.conditionalDeletions { return known }
        guard deletions.add(1, ordering: .relaxed).newValue > Self.worthTrying else { return false }
        return try isCapable(\.conditionalDeletions, probeConditionalDeletions)
    }

    /// Tries to delete a version that there is not of a scratch object, once.
    private func probeConditionalDeletions() throws(StoreError) -> Bool {
        let name = scratch(.deletion)
        do throws(StoreError) {
            try putScratch(name)
        } catch {
            // Who may delete and not write such objects goes on as before.
            if error.isTransient { throw error }
            return false
        }
        var request = S3Request("DELETE", client.fullKey(name))
        request.fields.append("If-Match", Self.impossibleTag.fieldValue)
        // The answer to a second one tells nothing: the first may have done it.
        request.isRepeatable = false
        let attempt = request
        let isEnforced = try isRefused { () throws(StoreError) in _ = try client.send(attempt) }
        try delete(name, condition: .none)
        return isEnforced
    }
}
