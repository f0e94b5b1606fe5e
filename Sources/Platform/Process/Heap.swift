// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims

/// The process's memory, as malloc(3) has it.
package enum Heap {
    /// Has little kept of what is freed, for a process that lives for long: threads that each kept what their largest
    /// task took would add up.
    ///
    /// Call it before there are other threads.
    package static func keepSmall() { moorage_keep_heap_small() }
}
