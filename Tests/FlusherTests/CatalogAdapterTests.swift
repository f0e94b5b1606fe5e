// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import ObjectStore
import Platform
import Testing

@testable import Flusher

@Suite struct CatalogAdapterTests {
    private let fixture: FlusherFixture
    private let adapter: CatalogAdapter
    private let path = ObjectKey("a")

    init() throws {
        fixture = try FlusherFixture(store: FakeStore())
        adapter = CatalogAdapter(catalog: try Catalog(directory: fixture.folder + "/catalog"))
    }

    private func version(_ tag: String) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: tag), size: 1, lastModified: nil)
    }

    private func status(_ tag: String) -> ObjectStatus {
        ObjectStatus(version: version(tag), metadata: ObjectMetadata())
    }

    @Test func anAnswerFromBeforeACommitIsNotTakenIn() {
        let moment = adapter.moment()
        #expect(moment != nil)
        adapter.committed(
            path,
            version: version("ours"),
            attributes: FileAttributes(mode: 0o100_644, uid: 0, gid: 0, modified: .now()),
            others: .unknown,
            target: nil,
            generation: nil,
            source: nil
        )
        adapter.found(path, status("older"), since: moment)
        adapter.found(path, nil, since: moment)
        #expect(adapter.known(path)?.version == version("ours"))
        adapter.found(path, status("newer"), since: adapter.moment())
        #expect(adapter.known(path)?.version == version("newer"))
        adapter.found(path, status("newest"))
        #expect(adapter.known(path)?.version == version("newest"))
    }
}
