// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import FoundationEssentials
internal import Platform
package import Policy

/// Keeps ``ByteBudgets`` over restarts: `budget.json`, readable for this user only.
package enum BudgetRecord {
    private struct Document: Codable {
        /// By volume, then by what they are for.
        private typealias Parts = [String: [String: Document]]

        var day: Int64
        var dayBytes: Int64
        var month: Int64
        var monthBytes: Int64
        /// Of each volume; nil from an earlier version, and in what is one volume's.
        var volumes: [String: Document]?
        /// Of a volume: what went of its files, by the patterns that mean them, and by what is set for themselves.
        var patterns: [String: Document]?
        var files: [String: Document]?

        init(_ budget: ByteBudget = ByteBudget()) {
            day = budget.day
            dayBytes = budget.dayBytes
            month = budget.month
            monthBytes = budget.monthBytes
        }

        init(_ budgets: ByteBudgets) {
            self.init(budgets.all)
            var (volumes, patterns, files) = ([String: Document](), Parts(), Parts())
            for (owner, budget) in budgets.owners {
                switch owner {
                case .volume(let id): volumes[id] = Document(budget)
                case .pattern(let text, let id): patterns[id, default: [:]][text] = Document(budget)
                case .files(let text, let id): files[id, default: [:]][text] = Document(budget)
                }
            }
            for (id, own) in patterns { volumes[id, default: Document()].patterns = own }
            for (id, own) in files { volumes[id, default: Document()].files = own }
            self.volumes = volumes
        }

        var budget: ByteBudget { ByteBudget(day: day, dayBytes: dayBytes, month: month, monthBytes: monthBytes) }

        var budgets: ByteBudgets {
            var owners: [BudgetOwner: ByteBudget] = [:]
            for (id, volume) in volumes ?? [:] {
                owners[.volume(id)] = volume.budget
                for (text, own) in volume.patterns ?? [:] { owners[.pattern(text, volume: id)] = own.budget }
                for (text, own) in volume.files ?? [:] { owners[.files(text, volume: id)] = own.budget }
            }
            return ByteBudgets(all: budget, owners: owners)
        }
    }

    /// The most bytes that a record may have.
    private static let limit = 4 << 20

    /// Reads what ``save(_:to:)`` wrote; nil where there is no file, throws where it cannot be understood.
    package static func load(_ path: String) throws(ConfigurationError) -> ByteBudgets? {
        do {
            guard try FileStatus.of(path) != nil else { return nil }
            let document = try JSONDecoder().decode(Document.self, from: Data(try Files.read(path, limit: limit)))
            return document.budgets
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "is damaged; what went over metered networks is counted from nothing")
        }
    }

    package static func save(_ budgets: ByteBudgets, to path: String) throws(ConfigurationError) {
        do {
            try Files.removeAbandoned(of: path)
            try Files.writeAtomically(path, [UInt8](try JSONEncoder().encode(Document(budgets))) + [0x0A])
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "cannot be written: \(error)")
        }
    }
}
