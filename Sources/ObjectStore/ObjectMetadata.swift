// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The file attributes that travel with an object as user metadata; nil where the object has none.
package struct ObjectMetadata: Hashable, Sendable {
    /// The full st_mode, type bits included, as s3fs and rclone write it (decimal).
    package var mode: UInt32?
    package var uid: UInt32?
    package var gid: UInt32?
    package var modified: Timestamp?
    /// The number of a device, as GeeseFS writes it; of FIFOs and sockets 0.
    package var device: UInt32?
    package var extended: ExtendedAttributes
    package var contentType: String?
    /// What else is stored of the representation (RFC 9110, 8), and given out with it: lower-case names of fields.
    package var representation: [String: String]
    /// Other user metadata, lower-case names without the `x-amz-meta-` prefix.
    package var other: [String: String]

    package init(
        mode: UInt32? = nil,
        uid: UInt32? = nil,
        gid: UInt32? = nil,
        modified: Timestamp? = nil,
        device: UInt32? = nil,
        extended: ExtendedAttributes = .none,
        contentType: String? = nil,
        representation: [String: String] = [:],
        other: [String: String] = [:]
    ) {
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.modified = modified
        self.device = device
        self.extended = extended
        self.contentType = contentType
        self.representation = representation
        self.other = other
    }

    /// Whether there is nothing but what attributes of a file or folder become, as a HEAD has told.
    package var isOfAttributes: Bool {
        (chosenType == nil || chosenType == Self.folderType) && representation.isEmpty && other.isEmpty
    }

    /// What there is beside attributes; `typeOfName`: the media type that the object's name tells.
    package func others(typeOfName: String?) -> OtherMetadata {
        if isOfAttributes { return .none }
        let isOfName = chosenType == typeOfName && representation.isEmpty && other.isEmpty
        return isOfName ? .typeOfName : .unknown
    }

    /// The type that s3fs and other programs give a folder's object.
    package static let folderType = "application/x-directory"

    /// What servers tell of objects whose type nobody told them.
    private static let untoldTypes: Set<String> = ["application/octet-stream", "binary/octet-stream"]

    /// The media type that somebody gave the object; nil where nobody did.
    package var chosenType: String? { contentType.flatMap { Self.untoldTypes.contains($0) ? nil : $0 } }

    /// These attributes with everything else that an object has.
    package func carrying(_ found: ObjectMetadata) -> ObjectMetadata {
        var result = self
        result.contentType = found.chosenType ?? contentType
        result.representation = found.representation
        result.other = found.other
        return result
    }

    /// These attributes with what stays of an object when it gets other content: what is said of the place, and not of
    /// the bytes that were there.
    package func replacing(_ found: ObjectMetadata) -> ObjectMetadata {
        var result = self
        result.contentType = found.chosenType
        result.representation = found.representation.filter { $0.key != "content-encoding" }
        return result
    }
}

/// What an object is known to have beside the attributes of its file or folder.
package enum OtherMetadata: Hashable, Sendable {
    /// There may be anything.
    case unknown
    /// Nothing at all.
    case none
    /// The media type that its name tells, and nothing else.
    case typeOfName
}

/// What a HEAD of an object tells.
package struct ObjectStatus: Hashable, Sendable {
    package var version: ObjectVersion
    package var metadata: ObjectMetadata
    /// Whether the server says that it encrypts the object in a way after which its entity tag tells nothing of the bytes.
    package var isEncrypted: Bool

    package init(version: ObjectVersion, metadata: ObjectMetadata, isEncrypted: Bool = false) {
        self.version = version
        self.metadata = metadata
        self.isEncrypted = isEncrypted
    }
}

/// One page of a listing.
package struct ListingPage: Sendable {
    package struct Entry: Hashable, Sendable {
        /// Relative to the volume's prefix; a folder marker keeps its trailing slash.
        package var key: ObjectKey
        package var version: ObjectVersion
        /// Of exactly that version; nil where the listing does not tell, and a HEAD has to.
        package var metadata: ObjectMetadata?

        package init(key: ObjectKey, version: ObjectVersion, metadata: ObjectMetadata? = nil) {
            self.key = key
            self.version = version
            self.metadata = metadata
        }
    }

    package var entries: [Entry]
    /// Folders (common prefixes) relative to the volume's prefix, without the trailing slash.
    package var folders: [ObjectKey]
    /// What to pass for the next page, nil at the end.
    package var next: String?

    package init(entries: [Entry], folders: [ObjectKey], next: String?) {
        self.entries = entries
        self.folders = folders
        self.next = next
    }
}
