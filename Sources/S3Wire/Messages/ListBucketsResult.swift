// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The answer to `GET /`: `ListAllMyBucketsResult`.
package struct ListBucketsResult: Hashable, Sendable {
    package struct Bucket: Hashable, Sendable {
        package var name: String
        package var created: Timestamp

        package init(name: String, created: Timestamp) {
            self.name = name
            self.created = created
        }
    }

    package var buckets: [Bucket]
    /// What the names begin with, when the request asks for that.
    package var prefix: String?
    /// What to ask for next; nil at the end.
    package var continuationToken: String?

    package init(buckets: [Bucket]) {
        self.buckets = buckets
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("ListAllMyBucketsResult")
        buckets = []
        for bucket in root.first("Buckets")?.all("Bucket") ?? [] {
            let created = bucket.time("CreationDate") ?? Timestamp(nanoseconds: 0)
            buckets.append(Bucket(name: try bucket.required("Name"), created: created))
        }
        prefix = root["Prefix"]
        continuationToken = root["ContinuationToken"]
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("ListAllMyBucketsResult", isNamespaced: true) { writer in
            writer.element("Owner") { writer in
                writer.text("ID", "moorage")
                writer.text("DisplayName", "moorage")
            }
            writer.element("Buckets") { writer in
                for bucket in buckets {
                    writer.element("Bucket") { writer in
                        writer.text("Name", bucket.name)
                        writer.text("CreationDate", bucket.created.rfc3339)
                    }
                }
            }
            if let prefix { writer.text("Prefix", prefix) }
            if let continuationToken { writer.text("ContinuationToken", continuationToken) }
        }
        return writer.bytes
    }
}
