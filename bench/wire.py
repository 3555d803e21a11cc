"""A small PostgreSQL client on the standard library: enough protocol to drive and to disturb a server.

Text format only, no TLS. `Connection.query` is the simple protocol; `send` and `receive` are single messages, for those who
want them in an order no driver would choose.
"""

import base64
import hashlib
import hmac
import os
import socket
import struct
from urllib.parse import unquote, urlparse


class ServerError(Exception):
    """An ErrorResponse."""

    def __init__(self, fields):
        super().__init__(f"{fields.get('C')}: {fields.get('M')}")
        self.state, self.message = fields.get("C"), fields.get("M")


def text(value):
    return value.encode() + b"\0"


class Connection:
    """One session. `url` is `postgres://user:password@host:port/database`."""

    def __init__(self, url, timeout=60.0):
        parts = urlparse(url)
        self.user, self.password = unquote(parts.username), unquote(parts.password or "")
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        body = struct.pack("!i", 196608) + text("user") + text(self.user) + text("database") + text(parts.path[1:]) + b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.authenticate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Says goodbye and closes the socket."""
        try:
            self.send(b"X")
        except OSError:
            pass
        self.socket.close()

    def send(self, tag, body=b""):
        self.socket.sendall(tag + struct.pack("!i", len(body) + 4) + body)

    def read(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the server closed the connection")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def receive(self):
        """The next message: its tag and body."""
        head = self.read(5)
        return head[:1], self.read(struct.unpack("!i", head[1:])[0] - 4)

    def authenticate(self):
        while True:
            tag, body = self.receive()
            if tag == b"E":
                raise ServerError(error_fields(body))
            if tag == b"Z":
                return
            if tag != b"R":
                continue
            (kind,) = struct.unpack("!i", body[:4])
            if kind == 10:
                self.begin_scram()
            elif kind == 11:
                self.prove_scram(body[4:].decode())
            elif kind not in (0, 12):
                raise ConnectionError(f"the server wants authentication of kind {kind}")

    def begin_scram(self):
        self.nonce = base64.b64encode(os.urandom(18)).decode()
        self.first = f"n=,r={self.nonce}"
        said = ("n,," + self.first).encode()
        self.send(b"p", text("SCRAM-SHA-256") + struct.pack("!i", len(said)) + said)

    def prove_scram(self, challenge):
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        assert parts["r"].startswith(self.nonce)
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={parts['r']}"
        signed = f"{self.first},{challenge},{last}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature))).decode()
        self.send(b"p", f"{last},p={proof}".encode())

    def query(self, sql):
        """Runs a script; all its rows, values as text or None. Raises ServerError after ReadyForQuery."""
        self.send(b"Q", text(sql))
        return self.results()

    def results(self):
        """Reads to ReadyForQuery: the rows on the way there."""
        rows, error = [], None
        while True:
            tag, body = self.receive()
            if tag == b"D":
                rows.append(row_values(body))
            elif tag == b"E":
                error = ServerError(error_fields(body))
            elif tag == b"Z":
                if error:
                    raise error
                return rows

    # Single messages of the extended protocol.

    def parse(self, name, sql):
        self.send(b"P", text(name) + text(sql) + struct.pack("!h", 0))

    def bind(self, portal, name, values=()):
        body = text(portal) + text(name) + struct.pack("!hh", 0, len(values))
        for value in values:
            encoded = None if value is None else str(value).encode()
            body += struct.pack("!i", -1) if encoded is None else struct.pack("!i", len(encoded)) + encoded
        self.send(b"B", body + struct.pack("!h", 0))

    def describe(self, kind, name):
        """`kind` is "S" for a statement, "P" for a portal."""
        self.send(b"D", kind.encode() + text(name))

    def execute(self, portal, rows_max=0):
        self.send(b"E", text(portal) + struct.pack("!i", rows_max))

    def sync(self):
        self.send(b"S")


def error_fields(body):
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def row_values(body):
    (count,), at, values = struct.unpack("!h", body[:2]), 2, []
    for _ in range(count):
        (length,) = struct.unpack("!i", body[at:at + 4])
        at += 4
        values.append(None if length < 0 else body[at:at + length].decode())
        at += max(0, length)
    return values
