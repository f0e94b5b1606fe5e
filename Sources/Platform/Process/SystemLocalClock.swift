// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// The machine's time zone, or that of `TZ`, as it is when the value is made (tzset(3)).
package struct SystemLocalClock: LocalClock {
    package init() { tzset() }

    package func offset(at time: Timestamp) -> Int64 {
        var seconds = time_t(time.seconds)
        var fields = tm()
        // Only a year that no int holds fails.
        guard localtime_r(&seconds, &fields) != nil else { return 0 }
        return Int64(fields.tm_gmtoff)
    }
}
