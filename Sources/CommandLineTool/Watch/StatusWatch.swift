// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Platform

/// `status --watch`: shows the status and keeps it up to date, told by the flusher's events what to look at again.
final class StatusWatch {
    /// What the threads that wait for the flusher and for signals leave for the one that shows.
    private struct News {
        var hasChanged = true
        var isConnected = false
        var isResized = false
        var isSuspended = false
        var isOver = false
    }

    /// At most so often the flusher is asked, in seconds.
    private static let gap = 0.25
    /// After so long without an event it is asked all the same: some things, such as the cache, tell nothing.
    private static let longest = 5.0

    private let instance: Instance
    private let json: Bool
    private let news = Monitor(News())
    private let screen: TerminalScreen?
    private var shown: [UInt8] = []
    private var lastText: [StyledText] = []

    init(_ instance: Instance, json: Bool) {
        self.instance = instance
        self.json = json
        screen = json ? nil : TerminalScreen.ofStandardOutput()
    }

    func run() throws(CommandFailure) -> Int32 {
        let news = news
        let signals = WatchSignals { signal in
            news.update { news in
                switch signal {
                case .resized: news.isResized = true
                case .suspended: news.isSuspended = true
                case .ended: news.isOver = true
                }
            }
        }
        try signals.start()
        let watcher = try FlusherWatcher(instance.launcher) { happening in
            news.update { news in
                news.hasChanged = true
                switch happening {
                case .connected: news.isConnected = true
                case .gone: news.isConnected = false
                case .event, .change: break
                }
            }
        }
        defer { screen?.leave(showing: lastText) }
        try show()
        withExtendedLifetime(watcher) {}
        return 0
    }

    private func show() throws(CommandFailure) {
        var report = try StatusCommand.report(instance)
        var askedAt = monotonicSeconds()
        try draw(report)
        while true {
            let news = wait()
            if news.isOver || Console.isAbandoned { return }
            if news.isSuspended { screen?.suspend(showing: lastText) }
            let age = monotonicSeconds() - askedAt
            // The journals of a long queue are not read again and again while no flusher tells that they changed.
            if news.hasChanged || age >= Self.longest {
                if age < Self.gap { pause(Self.gap - age) }
                report = try StatusCommand.report(instance)
                askedAt = monotonicSeconds()
            }
            try draw(report)
        }
    }

    /// Waits for news, a second at most.
    private func wait() -> News {
        let found = news.wait(timeout: 1) { news -> News? in
            guard news.hasChanged || news.isResized || news.isSuspended || news.isOver else { return nil }
            defer { (news.hasChanged, news.isResized, news.isSuspended) = (false, false, false) }
            return news
        }
        if let found { return found }
        var none = News()
        none.hasChanged = false
        return none
    }

    private func pause(_ seconds: Double) {
        _ = news.wait(timeout: seconds) { $0.isOver ? true : nil }
    }

    private func draw(_ report: StatusReport) throws(CommandFailure) {
        guard let screen else { return try print(report) }
        let size = screen.size
        let view = WatchScreen(report: report, now: .now())
        lastText = view.lines(width: size.width, height: size.height)
        screen.draw(lastText)
    }

    /// Prints the document when it says something else than the last one.
    private func print(_ report: StatusReport) throws(CommandFailure) {
        let mark = try line(report.withoutAges)
        guard mark != shown else { return }
        shown = mark
        if json { return Console.bytes(try line(report) + [0x0A]) }
        let lines = WatchScreen(report: report, now: nil).lines(width: 120).map(\.plain)
        Console.text(([Timestamp.now().rfc3339] + lines).joined(separator: "\n") + "\n\n")
    }

    private func line(_ report: StatusReport) throws(CommandFailure) -> [UInt8] {
        do throws(ControlError) {
            return try JSON.encode(report)
        } catch {
            throw CommandFailure("output: \(error.description)")
        }
    }
}

extension StatusReport {
    /// The report without what grows by the passing of time alone.
    fileprivate var withoutAges: StatusReport {
        var report = self
        for key in report.conditions.keys { report.conditions[key]?.age = 0 }
        for index in report.volumes.indices { report.volumes[index].activity?.oldestWait?.seconds = 0 }
        return report
    }
}
