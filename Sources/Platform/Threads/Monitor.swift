// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

public import Glibc

/// A lock that owns its data and lets threads wait for it to change (a monitor).
///
/// The pthread mutex serialises every access to `state`; waiting is for
/// threads of our own only, never for Swift's cooperative pool.
// Usable from inline code itself, or the compiler would keep `inspect` generic in other modules.
@usableFromInline package final class Monitor<State>: @unchecked Sendable {
    @usableFromInline let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    @usableFromInline let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    // Behind a pointer: the mutex keeps accesses apart, so the checks of a class's own storage would only cost.
    @usableFromInline let state = UnsafeMutablePointer<State>.allocate(capacity: 1)

    package init(_ initial: sending State) {
        state.initialize(to: initial)
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(condition, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        state.deinitialize(count: 1)
        state.deallocate()
        condition.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` alone and wakes every waiting thread afterwards.
    @inlinable package func update<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return try body(&state.pointee)
    }

    /// Runs `body` alone, waking nobody.
    @inlinable package func inspect<Result>(_ body: (inout State) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&state.pointee)
    }

    /// Waits until `body` returns a value, or until `timeout` seconds have passed (nil: for ever).
    ///
    /// `body` runs alone, at once and after each ``update(_:)``. Returns nil on a timeout.
    package func wait<Result>(timeout: Double? = nil, until body: (inout State) -> Result?) -> Result? {
        var deadline = timespec()
        clock_gettime(CLOCK_MONOTONIC, &deadline)
        if let timeout {
            let total = Int64(deadline.tv_nsec) + Int64(max(0, min(timeout, 1e9)) * 1e9)
            deadline.tv_sec += Int(total / 1_000_000_000)
            deadline.tv_nsec = Int(total % 1_000_000_000)
        }
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let result = body(&state.pointee) { return result }
            if timeout == nil {
                pthread_cond_wait(condition, mutex)
            } else if pthread_cond_timedwait(condition, mutex, &deadline) == ETIMEDOUT {
                return body(&state.pointee)
            }
        }
    }
}
