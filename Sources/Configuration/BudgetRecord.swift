// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import FoundationEssentials
internal import Platform
package import Policy

/// Keeps a ``ByteBudget`` over restarts: `budget.json`, readable for this user only.
package enum BudgetRecord {
    private struct Document: Codable {
        var day: Int64
        var dayBytes: Int64
        var month: Int64
        var monthBytes: Int64
    }

    /// Reads what ``save(_:to:)`` wrote; nil where there is no file, throws where it cannot be understood.
    package static func load(_ path: String) throws(ConfigurationError) -> ByteBudget? {
        do {
            guard try FileStatus.of(path) != nil else { return nil }
            let document = try JSONDecoder().decode(Document.self, from: Data(try Files.read(path, limit: 4096)))
            return ByteBudget(
                day: document.day,
                dayBytes: document.dayBytes,
                month: document.month,
                monthBytes: document.monthBytes
            )
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "is damaged; what went over metered networks is counted from nothing")
        }
    }

    package static func save(_ budget: ByteBudget, to path: String) throws(ConfigurationError) {
        let document = Document(
            day: budget.day,
            dayBytes: budget.dayBytes,
            month: budget.month,
            monthBytes: budget.monthBytes
        )
        do {
            try Files.removeAbandoned(of: path)
            try Files.writeAtomically(path, [UInt8](try JSONEncoder().encode(document)) + [0x0A])
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "cannot be written: \(error)")
        }
    }
}
