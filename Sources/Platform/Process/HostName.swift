// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// The name of this machine (gethostname(2)), without its domain.
package enum HostName {
    package static var current: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "localhost" }
        let name = String(
            decoding: buffer.prefix { $0 != 0 && $0 != 0x2E }.map { UInt8(bitPattern: $0) },
            as: UTF8.self
        )
        return name.isEmpty ? "localhost" : name
    }
}
