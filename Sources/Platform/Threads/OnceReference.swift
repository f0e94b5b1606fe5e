// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

public import Synchronization

/// A reference that is set once and read by many threads without a lock.
///
/// The standard library has it as `AtomicLazyReference`, which is not inlined: each of its loads looks up the metadata of
/// its type, which takes a twelfth of the user time of a short read.
// Usable from inline code itself, or the compiler would keep it generic in other modules.
@usableFromInline package struct OnceReference<Instance: AnyObject & Sendable>: ~Copyable, @unchecked Sendable {
    // What it points to is Sendable.
    @usableFromInline let pointer = Atomic<UnsafeMutableRawPointer?>(nil)

    package init() {}

    deinit {
        if let pointer = pointer.load(ordering: .acquiring) { Unmanaged<Instance>.fromOpaque(pointer).release() }
    }

    /// What it was set to; nil while it was not.
    @inlinable package func load() -> Instance? {
        pointer.load(ordering: .acquiring).map { Unmanaged<Instance>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Sets it unless that was done before; returns what it is then.
    @inlinable package func storeIfNil(_ instance: Instance) -> Instance {
        let new = Unmanaged.passRetained(instance)
        let (isSet, known) = pointer.compareExchange(
            expected: nil,
            desired: new.toOpaque(),
            ordering: .acquiringAndReleasing
        )
        guard !isSet, let known else { return instance }
        new.release()
        return Unmanaged<Instance>.fromOpaque(known).takeUnretainedValue()
    }
}
