// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Journal
import ObjectStore
import Platform
import Testing

@Suite struct ExtendedAttributeTests {
    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// As s3fs 1.90 wrote it.
    private let foreign = "%7B%22user.a%22%3A%22AP8%3D%22%2C%22user.b%22%3A%22%22%7D"

    @Test func theFormIsThatOfS3fs() throws {
        let made = try ExtendedAttributes.none.setting(bytes("user.b"), to: []).setting(bytes("user.a"), to: [0, 255])
        #expect(made.text == foreign)
        let read = try #require(ExtendedAttributes(text: foreign))
        #expect(read.names == [bytes("user.a"), bytes("user.b")])
        #expect(read.value(of: bytes("user.a")) == [0, 255])
        #expect(read.value(of: bytes("user.b")) == [])
        #expect(read.value(of: bytes("user.c")) == nil)
    }

    @Test(
        arguments: [
            (" %7b \"n\" : \"YQ==\" , \"m\":\"Yg==\"}", ["m", "n"]), ("{}", []), ("%7B%7D", []), ("no%zz", []),
            ("{\"n\":\"YQ==\"", ["n"]), ("{\"n\":\"no-base64\",\"m\":\"\"}", ["m"]), ("{\"n\":5}", []),
            ("{\"a\\u00e9\\n\":\"\"}", ["a\u{e9}\n"]), ("{\"n\":\"\",\"n\":\"YQ==\"}", ["n"]), ("{\"\":\"\"}", []),
        ] as [(String, [String])]
    )
    func otherFormsAreReadAsFarAsTheyGo(text: String, names: [String]) {
        let read = ExtendedAttributes(text: text.filter { $0 != " " })
        #expect(read?.names.map { String(decoding: $0, as: UTF8.self) } == names)
    }

    @Test func whatCannotBeAFieldIsNone() {
        for text in ["a b", "a\nb", "\u{e9}", String(repeating: "a", count: 20_000)] {
            #expect(ExtendedAttributes(text: text) == nil)
        }
    }

    @Test func allNamesComeBack() throws {
        var names = (1...255).map { bytes("user.") + [UInt8($0)] }
        names += ["user.a,b:c\"d\\e", "user.\\u0041", "user.%41", "user.+ ~"].map(bytes)
        for name in names {
            let made = try ExtendedAttributes.none.setting(name, to: name)
            let read = try #require(ExtendedAttributes(text: made.text))
            #expect(read.names == [name])
            #expect(read.value(of: name) == name)
        }
    }

    /// s3fs takes a text apart at its commas and colons.
    @Test func marksOfOtherReadersAreNotInNames() throws {
        let made = try ExtendedAttributes.none.setting(bytes("user.a,b:c\"d"), to: [1])
        #expect(made.text == "%7B%22user.a%5Cu002cb%5Cu003ac%5Cu0022d%22%3A%22AQ%3D%3D%22%7D")
    }

    @Test func conditionsOfSetting() throws {
        let one = try ExtendedAttributes.none.setting(bytes("user.a"), to: [1], .absent)
        #expect(throws: FileError.exists) { try one.setting(bytes("user.a"), to: [2], .absent) }
        #expect(throws: FileError.noAttribute) { try one.setting(bytes("user.b"), to: [2], .present) }
        #expect(try one.setting(bytes("user.a"), to: [2], .present).value(of: bytes("user.a")) == [2])
        #expect(throws: FileError.noAttribute) { try one.removing(bytes("user.b")) }
        #expect(try one.removing(bytes("user.a")) == .none)
    }

    @Test func thereIsRoomForSoMuchAndNoMore() throws {
        let name = bytes("user.n")
        let around = try ExtendedAttributes.none.setting(name, to: []).text.utf8.count
        // Zeros are three bytes for four digits that need no percent sign.
        let most = (ExtendedAttributes.capacity - around) / 4 * 3
        let full = try ExtendedAttributes.none.setting(name, to: [UInt8](repeating: 0, count: most))
        #expect(full.text.utf8.count <= 1_700 && full.text.utf8.count > 1_690)
        #expect(throws: FileError.attributesTooLarge) {
            try ExtendedAttributes.none.setting(name, to: [UInt8](repeating: 0, count: most + 3))
        }
        #expect(throws: FileError.attributesTooLarge) { try full.setting(bytes("user.m"), to: []) }
    }

    @Test func whatOthersFilledBeyondThatCanShrink() throws {
        let value = [UInt8](repeating: 0x41, count: 2000)
        let long = String(repeating: "QUFB", count: 600)
        let read = try #require(ExtendedAttributes(text: "{\"user.a\":\"\(long)\",\"user.b\":\"\"}"))
        #expect(throws: FileError.attributesTooLarge) { try read.setting(bytes("user.c"), to: value) }
        #expect(try read.removing(bytes("user.a")).names == [bytes("user.b")])
    }
}

/// Within a mount.
@Suite struct KeptAttributeTests {
    private let caller = Caller(uid: 5, gid: 6, umask: 0o022)
    private let name = ObjectKey("user.color")

    private func set(_ volume: Volume, _ path: String, _ value: [UInt8]) throws {
        try volume.files.setExtendedAttribute(volume.number(path), name, value)
    }

    private func value(_ volume: Volume, _ path: String) throws -> [UInt8] {
        try volume.files.extendedAttribute(volume.number(path), name)
    }

    private func names(_ volume: Volume, _ path: String) throws -> [String] {
        try volume.files.extendedAttributes(volume.number(path), caller: caller).map(\.string)
    }

    @Test func theyStayWithTheFileThroughWritesRenamesAndMounts() throws {
        let volume = try Volume()
        volume.store.set("remote", [1, 2, 3])
        try volume.put("local", [4])
        try volume.makeFolder("d")
        for path in ["remote", "local", "d"] { try set(volume, path, bytes(path)) }
        #expect(try volume.journal.node(at: ObjectKey("remote"))?.generation?.wholeRemote != nil)
        try volume.put("local", [5, 6])
        try volume.rename("remote", "d/moved")
        try volume.rename("d", "e")
        for _ in 0..<2 {
            #expect(try value(volume, "e/moved") == bytes("remote"))
            #expect(try value(volume, "local") == bytes("local"))
            #expect(try value(volume, "e") == bytes("d"))
            #expect(try names(volume, "e") == ["user.color"])
            try volume.mountAgain()
        }
        #expect(try volume.content("e/moved") == [1, 2, 3])
    }

    @Test func onlyFilesAndFoldersHaveThoseOfUsers() throws {
        let volume = try Volume()
        try volume.makeLink("link", to: "nowhere")
        #expect(throws: FileError.notPermitted) { try set(volume, "link", [1]) }
        let number = try volume.number("link")
        try volume.files.setExtendedAttribute(number, ObjectKey("trusted.t"), [1])
        #expect(try names(volume, "link").isEmpty)
        #expect(try volume.files.extendedAttributes(number, caller: Caller(uid: 0, gid: 0, umask: 0)).count == 1)
    }

    @Test func otherNamespacesAreNotThere() throws {
        let volume = try Volume()
        try volume.put("f", [1])
        let number = try volume.number("f")
        let names = ["security.capability", "security.SMACK64EXEC", "system.posix_acl_access", "other"]
        for name in names.map({ ObjectKey($0) }) {
            #expect(throws: FileError.notSupported) { try volume.files.extendedAttribute(number, name) }
            #expect(throws: FileError.notSupported) { try volume.files.setExtendedAttribute(number, name, [1]) }
        }
        try volume.files.setExtendedAttribute(number, ObjectKey("security.NTACL"), [1])
        #expect(try volume.files.extendedAttribute(number, ObjectKey("security.NTACL")) == [1])
        #expect(throws: FileError.invalidArgument) {
            try volume.files.setExtendedAttribute(number, ObjectKey("user."), [1])
        }
        #expect(throws: FileError.notPermitted) {
            try volume.files.setExtendedAttribute(number, ObjectKey("user.moorage.state"), [1])
        }
    }

    /// ACLs that s3fs wrote must not be lost with a change of something else, but give no rights here either.
    @Test func whatOthersWroteIsCarriedAlongAndNotShown() throws {
        let volume = try Volume()
        volume.store.set("f", [1])
        let text = "%7B%22system.posix_acl_access%22%3A%22AQ%3D%3D%22%2C%22user.moorage.pin%22%3A%22MQ%3D%3D%22%7D"
        volume.store.state.inspect {
            $0.objects[ObjectKey("f")]?.metadata.extended = ExtendedAttributes(text: text) ?? .none
        }
        #expect(try names(volume, "f").isEmpty)
        _ = try volume.files.setAttributes(volume.number("f"), AttributeChanges(permissions: 0o600), size: nil)
        #expect(try volume.journal.node(at: ObjectKey("f"))?.attributes.extended.text == text)
        #expect(throws: FileError.noAttribute) {
            try volume.files.extendedAttribute(volume.number("f"), ObjectKey("user.moorage.pin"))
        }
        try set(volume, "f", [1])
        let kept = try volume.journal.node(at: ObjectKey("f"))?.attributes.extended.names.map {
            ObjectKey(bytes: $0).string
        }
        #expect(kept == ["system.posix_acl_access", "user.color", "user.moorage.pin"])
    }

    /// A listing tells nothing of them.
    @Test func whereNothingIsAskedOfAFileTheyAreAskedFor() throws {
        let volume = try Volume(usesServerModificationTime: true)
        volume.store.set("f", [1])
        let made = try ExtendedAttributes.none.setting(bytes("user.color"), to: [7])
        volume.store.state.inspect { $0.objects[ObjectKey("f")]?.metadata.extended = made }
        let number = try volume.number("f")
        #expect(volume.store.state.inspect { $0.heads } == 0)
        #expect(try volume.files.extendedAttribute(number, name) == [7])
        #expect(try names(volume, "f") == ["user.color"])
    }

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
}
