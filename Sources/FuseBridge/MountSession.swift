// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CFuse
package import FileSystem
internal import Glibc
internal import Platform

/// One mounted file system, from mount(2) to its end.
///
/// Call ``StopSignals/take(early:)`` before the process has any other thread, then make the session, then
/// ``run(onReady:)``, which returns when it is unmounted, by whomever, or after SIGINT, SIGTERM or SIGHUP.
package final class MountSession: Sendable {
    private struct State: @unchecked Sendable {
        // The session lives until `run` returns; the pointer is used under the lock or by `run`.
        var session: OpaquePointer?
        var loop: RequestLoop?
        var isEnding = false
    }

    private let options: MountOptions
    private let fileSystem: FileSystem
    private let bridge: Bridge
    private let state = Monitor(State())
    /// Requests that may be under way at once; more wait in the kernel.
    ///
    /// Each that waits for the remote keeps its thread, which costs some 40 KiB and, where the kernel has enough pipes for
    /// this user, two descriptors. Twice as many as reads in the background: while those wait, other work goes on.
    private static let maximumThreads = 2 * Int(Operations.maximumBackground)

    /// Mounts; the kernel's requests wait until ``run(onReady:)``.
    package init(options: MountOptions, fileSystem: FileSystem) throws(MountError) {
        self.options = options
        self.fileSystem = fileSystem
        bridge = Bridge(fileSystem: fileSystem, requests: WaitingRequests())
        StopSignals.hold()
        Interruption.serve(bridge.requests)
        let session = try Self.mounted(options, bridge)
        state.inspect { $0.session = session }
        bridge.kernelNames.serve(session)
        bridge.pages.serve(session)
    }

    /// Serves the kernel until the file system is unmounted, then records everything that is still open.
    ///
    /// `onReady` is called once, when the kernel and the mount have agreed and names can be looked up.
    package func run(onReady: @escaping @Sendable () -> Void) throws(MountError) {
        let mountpoint = options.mountpoint
        defer { bridge.requests.tell(nil) }
        let (session, loop) = state.update { state in
            state.loop = state.session.map { session in
                RequestLoop(session, maximumThreads: Self.maximumThreads) {
                    KernelReadahead.enlarge(mountpoint)
                    onReady()
                }
            }
            return (state.session, state.loop)
        }
        guard let session, let loop else { throw MountError(description: "the mount has ended already") }
        bridge.requests.tell(loop)
        do {
            try fileSystem.start()
            try startWatching()
        } catch {
            fuse_session_unmount(session)
            throw MountError(description: "\(error)")
        }
        let failure = loop.run()
        if failure != 0 { Log.error("mount", "no more requests can be taken: \(String(cString: strerror(failure)))") }
        bridge.requests.end()
        let isUnused = bridge.pages.end()
        state.update { state in
            state.isEnding = true
            state.session = nil
            state.loop = nil
        }
        fileSystem.shutDown()
        bridge.kernelNames.serve(nil)
        fuse_session_unmount(session)
        if isUnused { fuse_session_destroy(session) }
    }

    /// Ends the mount: as umount(8) would; when files are open in it, without them.
    package func unmount() {
        let isFirst = state.update { state in
            defer { state.isEnding = true }
            return !state.isEnding
        }
        guard isFirst else { return }
        if UnmountCall.unmount(options.mountpoint) {
            // The kernel ends the loop, unless another mount namespace holds a copy of the mount.
            if state.wait(timeout: 1, until: { $0.session == nil ? true : nil }) != nil { return }
        } else {
            Log.notice(
                "mount",
                "\(options.mountpoint) cannot be unmounted, being in use perhaps; leaving it all the same"
            )
        }
        interruptLoop()
    }

    // MARK: The session

    private static func mounted(_ options: MountOptions, _ bridge: Bridge) throws(MountError) -> OpaquePointer {
        LibraryLog.capture()
        var argv: [UnsafeMutablePointer<CChar>?] = options.arguments.map { strdup($0) }
        let count = Int32(argv.count)
        argv.append(nil)
        defer { for argument in argv { free(argument) } }
        let session = argv.withUnsafeMutableBufferPointer { buffer -> OpaquePointer? in
            var arguments = fuse_args(argc: count, argv: buffer.baseAddress, allocated: 0)
            defer { fuse_opt_free_args(&arguments) }
            var table = Operations.table()
            return moorage_fuse_session_new(&arguments, &table, Unmanaged.passUnretained(bridge).toOpaque())
        }
        guard let session else { throw MountError(description: LibraryLog.last ?? "libfuse refused the options") }
        guard fuse_session_mount(session, options.mountpoint) == 0 else {
            let reason = LibraryLog.last ?? String(cString: strerror(errno))
            fuse_session_destroy(session)
            throw MountError(description: reason)
        }
        let isRead = options.isReadOnly && PassthroughAbility.isPermitted
        if isRead { bridge.passthrough.serve(fuse_session_fd(session)) }
        ParallelDirectories.prepare(session, isNeeded: isRead)
        return session
    }

    // MARK: Upkeep

    private func startWatching() throws(SystemError) {
        try StopSignals.serve { [self] in unmount() }
        try bridge.requests.start()
        let presence = MountPresence(mountpoint: options.mountpoint)
        try Thread.detached(name: "upkeep") { [self] in
            while state.wait(timeout: 5, until: { $0.isEnding ? true : nil }) == nil {
                fileSystem.maintain()
                guard let presence, !presence.isPresent() else { continue }
                Log.notice("mount", "\(options.mountpoint) was unmounted, a copy elsewhere keeps it; leaving")
                interruptLoop()
            }
        }
    }

    /// Makes the loop end although the kernel still has the mount: files are open in it.
    private func interruptLoop() {
        // The loop waits for its threads, and those for the remote perhaps.
        bridge.requests.end()
        // While requests are taken, so that the kernel is not left waiting for pages.
        _ = bridge.pages.end()
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(SIGUSR1, &action, nil)
        var hasEnded = false
        while !hasEnded {
            hasEnded = state.inspect { state in
                guard let session = state.session, let loop = state.loop else { return true }
                fuse_session_exit(session)
                // Its threads sleep in read(2), which only a signal without SA_RESTART ends.
                loop.wake(with: SIGUSR1)
                return false
            }
            if !hasEnded { _ = state.wait(timeout: 0.05) { $0.session == nil ? true : nil } }
        }
    }
}
