// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import FoundationEssentials
internal import Platform
package import Policy

/// Keeps ``ByteBudgets`` over restarts: `budget.json`, readable for this user only.
package enum BudgetRecord {
    private struct Document: Codable {
        var day: Int64
        var dayBytes: Int64
        var month: Int64
        var monthBytes: Int64
        /// Of each volume; nil from an earlier version, and in what is one volume's.
        var volumes: [String: Document]?

        init(_ budget: ByteBudget) {
            day = budget.day
            dayBytes = budget.dayBytes
            month = budget.month
            monthBytes = budget.monthBytes
        }

        var budget: ByteBudget { ByteBudget(day: day, dayBytes: dayBytes, month: month, monthBytes: monthBytes) }
    }

    /// Reads what ``save(_:to:)`` wrote; nil where there is no file, throws where it cannot be understood.
    package static func load(_ path: String) throws(ConfigurationError) -> ByteBudgets? {
        do {
            guard try FileStatus.of(path) != nil else { return nil }
            let document = try JSONDecoder().decode(Document.self, from: Data(try Files.read(path, limit: 1 << 20)))
            return ByteBudgets(all: document.budget, volumes: (document.volumes ?? [:]).mapValues(\.budget))
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "is damaged; what went over metered networks is counted from nothing")
        }
    }

    package static func save(_ budgets: ByteBudgets, to path: String) throws(ConfigurationError) {
        var document = Document(budgets.all)
        document.volumes = budgets.volumes.mapValues { Document($0) }
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
