// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire

/// The body of a DeleteObjects request: `Delete`.
package struct DeleteRequest: Hashable, Sendable {
    package struct Object: Hashable, Sendable {
        package var key: ObjectKey
        /// Delete only this version, by tag; nil: whatever is there.
        package var entityTag: String?
        package var versionID: String?
        /// Delete only an object of this many bytes.
        package var size: Int64?
        /// Delete only an object of this time, to the second.
        package var lastModified: Timestamp?

        package init(key: ObjectKey, entityTag: String? = nil, versionID: String? = nil) {
            self.key = key
            self.entityTag = entityTag
            self.versionID = versionID
        }

        /// Reads an `Object`; a condition that cannot be read is an error, for it must not become none.
        package init(_ element: XMLElement) throws(XMLProblem) {
            self.init(
                key: ObjectKey(try element.required("Key")),
                entityTag: element["ETag"],
                versionID: element["VersionId"]
            )
            size = try element.number("Size")
            guard let text = element["LastModifiedTime"] else { return }
            lastModified = HTTPDate.parse(text) ?? Timestamp(s3: text)
            if lastModified == nil { throw XMLProblem("<LastModifiedTime> is not a time") }
        }
    }

    package var objects: [Object]
    /// Whether only errors are to be reported.
    package var isQuiet: Bool

    package init(objects: [Object], isQuiet: Bool) {
        self.objects = objects
        self.isQuiet = isQuiet
    }

    /// Reads a body; more than 1,000 objects are an error, as S3 has it.
    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("Delete")
        isQuiet = root.boolean("Quiet")
        objects = []
        for object in root.all("Object") { objects.append(try Object(object)) }
        guard (1...1000).contains(objects.count) else { throw XMLProblem("\(objects.count) objects in one request") }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("Delete", isNamespaced: true) { writer in
            writer.boolean("Quiet", isQuiet)
            for object in objects {
                writer.element("Object") { writer in
                    writer.key("Key", object.key, isEncoded: false)
                    if let tag = object.entityTag { writer.text("ETag", tag) }
                    if let version = object.versionID { writer.text("VersionId", version) }
                    if let size = object.size { writer.number("Size", size) }
                    if let time = object.lastModified { writer.text("LastModifiedTime", HTTPDate.format(time)) }
                }
            }
        }
        return writer.bytes
    }
}

/// The answer to DeleteObjects: `DeleteResult`.
package struct DeleteResult: Hashable, Sendable {
    package struct Failure: Hashable, Sendable {
        package var key: ObjectKey
        package var code: String
        package var message: String

        package init(key: ObjectKey, code: String, message: String) {
            self.key = key
            self.code = code
            self.message = message
        }
    }

    package var deleted: [ObjectKey]
    package var failures: [Failure]

    package init(deleted: [ObjectKey], failures: [Failure]) {
        self.deleted = deleted
        self.failures = failures
    }

    package init(_ root: XMLElement) throws(XMLProblem) {
        try root.expect("DeleteResult")
        deleted = []
        failures = []
        for element in root.all("Deleted") { deleted.append(ObjectKey(try element.required("Key"))) }
        for element in root.all("Error") {
            let key = ObjectKey(element["Key"] ?? "")
            let code = try element.required("Code")
            failures.append(Failure(key: key, code: code, message: element["Message"] ?? ""))
        }
    }

    package var xml: [UInt8] {
        var writer = XMLWriter()
        writer.element("DeleteResult", isNamespaced: true) { writer in
            for key in deleted {
                writer.element("Deleted") { $0.key("Key", key, isEncoded: false) }
            }
            for failure in failures {
                writer.element("Error") { writer in
                    writer.key("Key", failure.key, isEncoded: false)
                    writer.text("Code", failure.code)
                    writer.text("Message", failure.message)
                }
            }
        }
        return writer.bytes
    }
}
