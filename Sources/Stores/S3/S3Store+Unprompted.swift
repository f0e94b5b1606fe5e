// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import ObjectStore
internal import Platform

/// What a server, or a proxy before it, says of any object, such as Google's `Cache-Control: private, max-age=0`.
enum Unprompted {
    case unknown
    case beingFoundOut
    /// The fields with their values, believed until this moment of the monotonic clock.
    case known([String: String], until: Double)

    /// How long it is believed, in seconds.
    static let patience = 86_400.0
}

extension S3Store {
    package func stored(_ found: ObjectMetadata) throws(StoreError) -> ObjectMetadata {
        guard !found.representation.isEmpty else { return found }
        let added = try unpromptedFields()
        var result = found
        result.representation = found.representation.filter { name, value in
            // A time is a new one each time it is told.
            added[name].map { name != "expires" && $0 != value } ?? true
        }
        return result
    }

    /// Found out by one thread, for which the others wait.
    private func unpromptedFields() throws(StoreError) -> [String: String] {
        let known = unprompted.wait { state -> [String: String]?? in
            if case .beingFoundOut = state { return nil }
            if case .known(let fields, let end) = state, monotonicSeconds() < end { return .some(fields) }
            state = .beingFoundOut
            return .some(nil)
        }
        if let known, let fields = known { return fields }
        do throws(StoreError) {
            let fields = try probeAnswer()
            unprompted.update { $0 = .known(fields, until: monotonicSeconds() + Unprompted.patience) }
            return fields
        } catch {
            // Who may not make objects of any name cannot find it out.
            let isFinal = !error.isTransient && error.cause != .authentication && error.cause != .cancelled
            unprompted.update { $0 = isFinal ? .known([:], until: monotonicSeconds() + Unprompted.patience) : .unknown }
            guard isFinal else { throw error }
            Log.notice("s3", "what the server says of any object was not found out: \(error)")
            return [:]
        }
    }

    /// Looks at a scratch object.
    private func probeAnswer() throws(StoreError) -> [String: String] {
        try clearScratch()
        let key = scratch(.answer)
        try putScratch(key)
        var failure: StoreError?
        var fields: [String: String] = [:]
        do throws(StoreError) {
            fields = try status(of: key, cancellation: nil).metadata.representation
        } catch {
            failure = error
        }
        do throws(StoreError) {
            try delete(key, condition: .none)
        } catch {
            // What was learned counts; the next who clears takes it away.
            Log.notice("s3", "\(key) stays for now: \(error)")
        }
        if let failure { throw failure }
        if !fields.isEmpty { Log.notice("s3", "said of any object: \(fields.keys.sorted().joined(separator: ", "))") }
        return fields
    }
}
