// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims
internal import Synchronization

/// How a thread that waits for the network learns that nobody waits for its answer any more.
///
/// Whoever serves requests names the one that a thread works on, in ``during(_:_:)``. Whatever then waits below, however
/// deep, calls ``watch(_:)``: only a wait costs anything. A thread of our own that serves no request runs what it does as
/// ``Work``, which ends the same way; on any other there is nothing to watch.
@usableFromInline package enum Interruption {
    /// What is called when a request is given up; alive until its watch has ended.
    package final class Handler: Sendable {
        package let call: @Sendable () -> Void

        fileprivate init(_ call: @escaping @Sendable () -> Void) {
            self.call = call
        }
    }

    /// Where requests come from.
    package protocol Source: Sendable {
        /// Has `handler` called, on any thread, when the request is given up, at once if it was already; nil: no more,
        /// and when this returns it is not being called either.
        func setHandler(_ handler: Handler?, of request: UnsafeMutableRawPointer)

        /// Whether the request is given up; asks the kernel, which costs a little.
        func isGivenUp(_ request: UnsafeMutableRawPointer) -> Bool
    }

    private static let source = Lock<(any Source)?>(nil)

    /// To be called once, before the first request.
    package static func serve(_ source: some Source) {
        self.source.withLock { $0 = source }
    }

    /// Runs what is done for a request on this thread; the request lives at least as long.
    @inlinable package static func during<Value, Failure: Error>(
        _ request: UnsafeMutableRawPointer,
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        let outer = enter(request)
        defer { leave(to: outer) }
        return try body()
    }

    @usableFromInline
    package static func enter(_ request: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        defer { moorage_set_thread_purpose(request) }
        return moorage_thread_purpose()
    }

    @usableFromInline
    package static func leave(to outer: UnsafeMutableRawPointer?) { moorage_set_thread_purpose(outer) }

    /// Has `handler` called when the request or the work of this thread is given up, until the watch ends; nil without either.
    package static func watch(_ handler: @escaping @Sendable () -> Void) -> Watch? {
        if let work = moorage_thread_work() {
            let handler = Handler(handler)
            let source = Unmanaged<Work>.fromOpaque(work).takeUnretainedValue()
            source.setHandler(handler, of: work)
            return Watch(source: source, request: work, handler: handler)
        }
        guard let request = moorage_thread_purpose(), let source = source.withLock({ $0 }) else { return nil }
        let handler = Handler(handler)
        source.setHandler(handler, of: request)
        return Watch(source: source, request: request, handler: handler)
    }

    /// Whether the request or the work of this thread is given up: for what takes long without waiting.
    package static var isGivenUp: Bool {
        if let work = moorage_thread_work() {
            return Unmanaged<Work>.fromOpaque(work).takeUnretainedValue().isGivenUp
        }
        guard let request = moorage_thread_purpose(), let source = source.withLock({ $0 }) else { return false }
        return source.isGivenUp(request)
    }

    /// A handler that is in force; at most one a thread at a time.
    package struct Watch {
        fileprivate let source: any Source
        fileprivate let request: UnsafeMutableRawPointer
        fileprivate let handler: Handler

        package func end() {
            withExtendedLifetime(handler) { source.setHandler(nil, of: request) }
        }
    }
}

extension Interruption {
    /// What a thread of our own does without a request, and what ends all that it waits for.
    package final class Work: Source {
        private let state = Lock((handler: Handler?.none, isGivenUp: false))

        package init() {}

        package var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

        package func isGivenUp(_ request: UnsafeMutableRawPointer) -> Bool { isGivenUp }

        /// Runs `body` on this thread, which runs no other work; at most one thread at a time.
        package func run(_ body: () -> Void) {
            moorage_set_thread_work(Unmanaged.passUnretained(self).toOpaque())
            defer { moorage_set_thread_work(nil) }
            body()
        }

        /// Ends the wait of its thread, and each that begins later.
        package func giveUp() {
            state.withLock { state in
                state.isGivenUp = true
                state.handler?.call()
            }
        }

        package func setHandler(_ handler: Handler?, of request: UnsafeMutableRawPointer) {
            state.withLock { state in
                state.handler = handler
                if state.isGivenUp { handler?.call() }
            }
        }
    }
}

extension Monitor {
    /// Waits until `body` returns a value; nil when the request or the work of this thread was given up before that.
    ///
    /// `body` runs alone, at once and after each ``update(_:)``.
    package func waitUnlessInterrupted<Result>(until body: (inout State) -> Result?) -> Result? {
        if let result = inspect(body) { return result }
        let flag = InterruptFlag()
        let watch = Interruption.watch { [weak self] in
            flag.isSet.store(true, ordering: .relaxed)
            self?.update { _ in }
        }
        defer { watch?.end() }
        let outcome = wait { state -> Result?? in
            if let result = body(&state) { return .some(result) }
            return flag.isSet.load(ordering: .relaxed) ? .some(nil) : nil
        }
        return outcome ?? nil
    }
}

private final class InterruptFlag: Sendable {
    let isSet = Atomic<Bool>(false)
}
