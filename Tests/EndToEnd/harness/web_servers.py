# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Web servers from Debian's packages, each a process of its own on loopback with its own configuration."""

import os
import shutil
import socket
import sys

from .bucket import clean_environment
from .processes import Child, Failure, wait_until


def program(name):
    """A program of the tests' own Python environment, or of the system, whose servers are in sbin."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


NGINX = """
{load} daemon off; {user} worker_processes 1; pid {work}/pid; error_log {work}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log {work}/access.log; default_type application/octet-stream; max_ranges {max_ranges};
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3;
  uwsgi_temp_path {work}/t4; scgi_temp_path {work}/t5;
  server {{ listen 127.0.0.1:{port} {listen}; root {root}; {server} location / {{ {location} }} }}
}}
"""

APACHE = """
ServerName localhost
ServerRoot {work}
Listen 127.0.0.1:{port}
PidFile {work}/pid
ErrorLog {work}/error.log
{user}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule autoindex_module /usr/lib/apache2/modules/mod_autoindex.so
{dav}
DocumentRoot {root}
<Directory {root}>
  Options Indexes
  IndexOptions FancyIndexing NameWidth=*
  {switch}
</Directory>
"""

APACHE_DAV = """
LoadModule dav_module /usr/lib/apache2/modules/mod_dav.so
LoadModule dav_fs_module /usr/lib/apache2/modules/mod_dav_fs.so
DavLockDB {work}/locks
"""

LIGHTTPD = """
server.port = {port}
server.bind = "127.0.0.1"
server.document-root = "{root}"
server.errorlog = "{work}/error.log"
server.upload-dirs = ( "{work}" )
server.modules = ( {modules} )
dir-listing.activate = "enable"
{types}
{switch}
"""

CADDY = """
{{
  admin off
  auto_https off
}}
http://127.0.0.1:{port} {{
  root * {root}
  file_server browse
}}
"""

#: Every server of the matrix: what lists its folders, or None.
SERVERS = {
    "nginx-json": "index", "nginx-html": "index", "nginx-none": None, "nginx-dav": "webdav", "nginx-no-ranges": "index",
    "nginx-times": "index", "nginx-weak": "index",
    "apache": "index", "apache-dav": "webdav", "caddy": "index", "lighttpd": "index", "lighttpd-no-validators": "index",
    "lighttpd-dav": "webdav", "rclone-http": "index", "rclone-webdav": "webdav",
}


class WebServer:
    """One of `SERVERS` over the folder `root`; the nginx ones take more words of configuration."""

    def __init__(self, kind, folder, server="", location="", listen=""):
        self.kind = kind
        self.work = os.path.join(folder, "web")
        self.root = os.path.join(self.work, "root")
        os.makedirs(self.root)
        self.more = {"server": server, "listen": listen, "location": location}
        # Some of them serve as another user.
        for path in (folder, self.work, self.root):
            os.chmod(path, 0o777 if path == self.work else 0o755)
        for _ in range(3):
            self.port = free_port()
            self.address = f"127.0.0.1:{self.port}"
            self.url = f"http://{self.address}/"
            environment = clean_environment() | {"HOME": self.work, "XDG_DATA_HOME": self.work, "XDG_CONFIG_HOME": self.work}
            self.child = Child(self.command(), [], env=environment, log=os.path.join(folder, "web.log"))
            try:
                wait_until(self.answers, 20, f"{kind} to answer")
                return
            except Failure:
                self.child.end()
        raise Failure(f"{kind} did not start: {self.child.errors()}")

    def answers(self):
        if self.child.process.poll() is not None:
            raise Failure("it ended")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.child.end()

    def requests(self, method):
        """The paths that nginx logged for a method."""
        with open(os.path.join(self.work, "access.log")) as file:
            lines = [line.split('"')[1].split() for line in file]
        return [words[1] for words in lines if words and words[0] == method]

    def command(self):
        base, _, variant = self.kind.partition("-")
        return getattr(self, base)(variant)

    def write(self, text, **values):
        path = os.path.join(self.work, "configuration")
        with open(path, "w") as file:
            file.write(text.format(work=self.work, root=self.root, port=self.port, **values))
        return path

    def nginx(self, variant):
        location = {
            "json": "autoindex on; autoindex_format json;", "html": "autoindex on;",
            "no-ranges": "autoindex on; autoindex_format json;",
            "times": "autoindex on; autoindex_format json; etag off;",
            # The weakest that may be: one tag for whatever a file holds.
            "weak": """autoindex on; autoindex_format json; etag off; add_header ETag 'W/"same"';""",
            "dav": "dav_ext_methods PROPFIND OPTIONS;",
        }.get(variant, "")
        path = self.write(
            NGINX, user="user root;" if os.getuid() == 0 else "", max_ranges=0 if variant == "no-ranges" else 100,
            load="load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;" if variant == "dav" else "",
            server=self.more["server"], listen=self.more["listen"], location=location + self.more["location"],
        )
        return [program("nginx"), "-c", path, "-e", os.path.join(self.work, "error.log")]

    def apache(self, variant):
        dav = APACHE_DAV.format(work=self.work) if variant == "dav" else ""
        user = "User www-data\nGroup www-data" if os.getuid() == 0 else ""
        path = self.write(APACHE, user=user, dav=dav, switch="Dav On" if dav else "")
        return [program("apache2"), "-D", "FOREGROUND", "-f", path]

    def lighttpd(self, variant):
        path = self.write(
            LIGHTTPD, modules='"mod_webdav"' if variant == "dav" else '"mod_dirlisting"',
            switch='webdav.activate = "enable"\nwebdav.is-readonly = "enable"' if variant == "dav" else "",
            types="" if variant == "no-validators" else 'mimetype.assign = ( "" => "application/octet-stream" )',
        )
        return [program("lighttpd"), "-D", "-f", path]

    def caddy(self, variant):
        return [program("caddy"), "run", "--config", self.write(CADDY), "--adapter", "caddyfile"]

    def rclone(self, variant):
        return [
            program("rclone"), "serve", variant, self.root, "--addr", self.address, "--dir-cache-time", "0s",
            "--poll-interval", "0", "--config", os.devnull, "--read-only",
        ]
