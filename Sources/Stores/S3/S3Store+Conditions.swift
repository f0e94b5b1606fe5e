// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform
internal import S3Wire

extension S3Store {
    /// Makes a write that must only happen under `condition`, on servers that enforce conditions and on others.
    ///
    /// `write` sends the request with the condition it is given. With `looksFirst` the condition is checked by a
    /// HEAD as well: for operations where servers that enforce it on PUT still ignore it.
    func conditionally<Value>(
        _ key: ObjectKey,
        _ condition: WriteCondition,
        of kind: S3Conditions.Write,
        looksFirst: Bool = false,
        _ write: (WriteCondition) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        guard condition != .none else { return try write(.none) }
        let support = try conditionSupport()
        let isRefused = conditions.inspect { $0.refusing.contains(kind) }
        let isSent = support != .ignored && !isRefused && !isUnsendable(condition)
        if looksFirst || support != .enforced || !isSent { try verify(key, condition) }
        guard isSent else { return try write(.none) }
        do throws(StoreError) {
            return try write(condition)
        } catch {
            switch error.cause {
            case .unsupported:
                noteRefusal(of: kind)
                try verify(key, condition)
                return try write(.none)
            case .preconditionFailed:
                guard try isTagFormRefused(key, condition) else { throw error }
                return try writeWithBareTag(condition, write)
            default: throw error
            }
        }
    }

    /// Keeps to requests without conditions of one kind; what the server enforces for others stays.
    private func noteRefusal(of kind: S3Conditions.Write) {
        conditions.update { conditions in
            conditions.refusing.insert(kind)
            if kind == .object { conditions.support = .ignored }
        }
        learn { capabilities in
            switch kind {
            case .object, .completion: capabilities.conditionalWrites = false
            case .copy: capabilities.conditionalCopies = false
            case .deletion: capabilities.conditionalDeletions = false
            }
        }
        Log.notice(
            "s3",
            "the server refuses \(kind.name) under a condition: a change made at the same moment may be lost"
        )
    }

    /// Whether the condition names a version without a tag that could be sent.
    private func isUnsendable(_ condition: WriteCondition) -> Bool {
        guard case .version(let version) = condition else { return false }
        return version.entityTag.map(\.isWeak) ?? true
    }

    /// Checks a condition by looking; throws `.preconditionFailed` when it does not hold.
    func verify(_ key: ObjectKey, _ condition: WriteCondition) throws(StoreError) {
        let current = try currentVersion(key)
        switch condition {
        case .none: return
        case .absent:
            if current == nil { return }
        case .version(let wanted):
            guard let current else { throw StoreError(.notFound, "the object is gone", status: 404) }
            if current.isSame(as: wanted) { return }
        }
        throw StoreError(.preconditionFailed, "the object has changed at the remote")
    }

    /// What the remote holds under a key now, nil when nothing.
    func currentVersion(_ key: ObjectKey) throws(StoreError) -> ObjectVersion? {
        do throws(StoreError) {
            return try status(of: key, cancellation: nil).version
        } catch {
            if error.cause == .notFound { return nil }
            throw error
        }
    }

    /// After a 412: whether the object is still the wanted version, so that only the tag's quotes can be at fault.
    private func isTagFormRefused(_ key: ObjectKey, _ condition: WriteCondition) throws(StoreError) -> Bool {
        guard case .version(let wanted) = condition, !conditions.inspect({ $0.usesBareTags }) else { return false }
        guard let current = try currentVersion(key) else { return false }
        return current.isSame(as: wanted)
    }

    /// Tries the tag without quotes, and keeps to that when it works.
    private func writeWithBareTag<Value>(
        _ condition: WriteCondition,
        _ write: (WriteCondition) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        conditions.update { $0.usesBareTags = true }
        do throws(StoreError) {
            return try write(condition)
        } catch {
            conditions.update { $0.usesBareTags = false }
            throw error
        }
    }

    // MARK: Probing

    /// Whether the server enforces conditions, found out once.
    private func conditionSupport() throws(StoreError) -> S3Conditions.Support {
        let known = conditions.wait { conditions -> S3Conditions.Support? in
            if case .beingProbed = conditions.support { return nil }
            let support = conditions.support
            if case .unknown = support { conditions.support = .beingProbed }
            return support
        }
        guard case .unknown = known else { return known ?? .unproven }
        do throws(StoreError) {
            let support = try probeConditions()
            conditions.update { $0.support = support }
            if support != .unproven { learn { $0.conditionalWrites = support == .enforced } }
            return support
        } catch {
            conditions.update { $0.support = .unknown }
            throw error
        }
    }

    /// Asks for an impossible version to be replaced: a server that agrees ignores conditions.
    private func probeConditions() throws(StoreError) -> S3Conditions.Support {
        try clearScratch()
        let name = client.fullKey(scratch(.condition))
        var request = S3Request("PUT", name)
        request.fields.append("If-Match", Self.impossibleTag.fieldValue)
        request.body = .bytes([])
        do throws(StoreError) {
            _ = try client.send(request)
        } catch {
            switch error.cause {
            case .preconditionFailed, .notFound: return .enforced
            case .unsupported, .rejected: return .ignored
            case .forbidden: return .unproven
            default: throw error
            }
        }
        _ = try client.send(S3Request("DELETE", name))
        Log.notice("s3", "the server ignores conditional writes: a change made at the same moment may be lost")
        return .ignored
    }
}
