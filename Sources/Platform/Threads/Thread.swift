// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc

/// A joinable POSIX thread with a name that shows in ps(1) and profilers.
package struct Thread: ~Copyable, Sendable {
    private let id: pthread_t

    /// Starts a thread; `name` is cut at 15 bytes by the kernel, `stackSize` is in bytes.
    package init(
        name: String,
        stackSize: Int = 1 << 20,
        _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setstacksize(&attributes, stackSize)
        let context = Unmanaged.passRetained(ThreadContext(name: name, body: body))
        var id = pthread_t()
        let result = pthread_create(
            &id,
            &attributes,
            { argument in
                guard let argument else { return nil }
                let context = Unmanaged<ThreadContext>.fromOpaque(argument).takeRetainedValue()
                moorage_set_thread_name(String(context.name.prefix(15)))
                context.body()
                return nil
            },
            context.toOpaque()
        )
        guard result == 0 else {
            context.release()
            throw SystemError.make(result, "pthread_create", name)
        }
        self.id = id
    }

    /// Waits for the thread to end.
    package consuming func join() {
        pthread_join(id, nil)
    }

    /// Lets the thread end by itself.
    package consuming func detach() {
        pthread_detach(id)
    }

    /// Starts a thread nobody waits for.
    package static func detached(
        name: String,
        stackSize: Int = 1 << 20,
        _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        try Thread(name: name, stackSize: stackSize, body).detach()
    }
}

private final class ThreadContext: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}
