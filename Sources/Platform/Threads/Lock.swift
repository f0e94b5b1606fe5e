// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

public import Glibc

/// A lock that owns its data, on a pthread mutex.
///
/// Not `Synchronization.Mutex`, which is a priority-inheriting futex on Linux: it hands itself over to the thread that waits,
/// so that short uses by several threads become one switch of threads each. Thread Sanitizer does not understand it either.
// Usable from inline code itself, or the compiler would keep `withLock` generic in other modules.
@usableFromInline package struct Lock<State>: ~Copyable, @unchecked Sendable {
    // The mutex in tail storage serialises every access to `state`.
    @usableFromInline let storage: UnsafeMutablePointer<(mutex: pthread_mutex_t, state: State)>

    package init(_ initial: sending State) {
        storage = .allocate(capacity: 1)
        storage.initialize(to: (pthread_mutex_t(), initial))
        pthread_mutex_init(&storage.pointee.mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(&storage.pointee.mutex)
        storage.deinitialize(count: 1)
        storage.deallocate()
    }

    @inlinable package borrowing func withLock<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(&storage.pointee.mutex)
        defer { pthread_mutex_unlock(&storage.pointee.mutex) }
        return try body(&storage.pointee.state)
    }

    /// Runs `body` unless another thread has the lock; nil then.
    @inlinable package borrowing func withLockIfAvailable<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard pthread_mutex_trylock(&storage.pointee.mutex) == 0 else { return nil }
        defer { pthread_mutex_unlock(&storage.pointee.mutex) }
        return try body(&storage.pointee.state)
    }
}
