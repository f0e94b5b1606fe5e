// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Glibc
import ObjectStore
import Platform
import Testing

@Suite struct CacheFileTests {
    /// As whoever empties the cache's folder by hand may do.
    @Test func aTemporaryFileThatSomebodyDeletesIsMadeAgain() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/file"
        let deleted = Monitor(0)
        let isDone = Monitor(false)
        try Thread.detached(name: "deletes") {
            while !isDone.inspect({ $0 }) {
                for name in (try? Files.names(in: folder.path)) ?? [] where name != ObjectKey("file") {
                    if unlink("\(folder.path)/\(name)") == 0 { deleted.update { $0 += 1 } }
                    usleep(10_000)
                }
            }
        }
        defer { isDone.update { $0 = true } }
        let version = ObjectVersion(entityTag: EntityTag(opaque: "1"), size: 1 << 20)
        // Often enough that some are deleted between the two calls that make one.
        while deleted.inspect({ $0 }) < 20 {
            let file = try CacheFile.open(path, key: ObjectKey("a"), version: version, preferredBlockSize: 65_536)
            let isWritable = file.isWritable
            #expect(isWritable)
            unlink(path)
        }
    }
}
