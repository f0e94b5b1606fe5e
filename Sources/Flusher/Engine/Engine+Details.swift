// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Journal
internal import Platform
internal import Policy

extension Engine {
    /// Of more uploads than these at once no details are told: each rank is a look at the whole queue.
    static let detailLimit = 64

    /// What is told of an upload besides, when few are asked for.
    func details(_ node: JournalNode, _ session: VolumeSession, _ report: UploadReport) -> UploadDetails {
        let row = RowID(volume: session.id, node: node.id.value)
        let now = monotonicSeconds()
        let seen = board.upload(row, at: now)
        let isRunning = report.state == .uploading
        let (rank, transferClass) = state.inspect { state in
            (state.scheduler.rank(of: row), state.transferClass(of: row, in: session))
        }
        let rate = isRunning ? seen?.rate : nil
        let users = report.waiting.count { $0.reason == WaitingReason.paused.rawValue }
        let held = Set(state.inspect { $0.holds(of: row) }.map(\.reason.rawValue))
        return UploadDetails(
            transferClass: transferClass,
            rank: rank,
            acknowledged: isRunning
                ? state.inspect { $0.jobs[row] }?.progress?.acknowledged ?? 0
                : session.transfer(of: node)?.acknowledged ?? 0,
            holds: .init(user: users, policy: report.waiting.count { held.contains($0.reason) }),
            restarts: seen?.restarts ?? 0,
            bytesPerSecond: Int64(rate ?? 0),
            secondsLeft: isRunning ? RateMeter.secondsLeft(report.size - report.sent, at: rate)?.tenths : nil,
            settings: node.schedule.ownSettings
        )
    }
}

extension JournalNode.Schedule {
    /// What is set for the file itself.
    fileprivate var ownSettings: [String: String] {
        var result = FileSettings(settings).entries
        result[OptionName.notBefore.rawValue] = notBefore?.rfc3339
        result[OptionName.deadline.rawValue] = deadline?.rfc3339
        if priority != 0 { result[OptionName.priority.rawValue] = String(priority) }
        return result
    }
}

extension Engine.State {
    /// By which class's rules a row goes now.
    fileprivate func transferClass(of row: RowID, in session: VolumeSession) -> String {
        guard let work = scheduler.row(row)?.facts, let facts = volumes[row.volume]?.facts else {
            return TransferClass.background.rawValue
        }
        if work.isForced { return TransferClass.interactive.rawValue }
        let isDiscretionary = Policy.isDiscretionary(work, volume: facts, now: .now())
        return (isDiscretionary ? TransferClass.discretionary : .background).rawValue
    }
}
