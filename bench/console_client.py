"""The console's interface as a browser asks for it: one session, a connection for each thread that wants one."""

import http.client
import json
import threading


class ConsoleClient:
    """Logged in as the administrator."""

    def __init__(self, address, password):
        self.address, self.headers, self.local = address, {}, threading.local()
        session = self.send("POST", "/api/login", {"user": "admin", "password": password})
        self.headers["X-CSRF-Token"] = session["csrf"]

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def ask(self, method, path, body=None):
        """What is answered, as text, over this thread's connection."""
        if not hasattr(self.local, "connection"):
            self.local.connection = self.connect()
        connection = self.local.connection
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **self.headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, f"{method} {path}: {answer.status} {text}"
        if cookie := answer.getheader("Set-Cookie"):
            self.headers["Cookie"] = cookie.split(";")[0]
        return text

    def send(self, method, path, body):
        return json.loads(self.ask(method, path, body))

    def get(self, path):
        return json.loads(self.ask("GET", path))

    def listen(self, path):
        """The lines of a stream of events, without an end."""
        connection = self.connect()
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        try:
            while line := answer.readline():
                yield line
        finally:
            connection.close()
