#!/usr/bin/env python3
"""Counts effects: each request's path becomes a line `SECONDS PATH` of the file, durable before the answer.

    counter.py ADDRESS PORT FILE
"""
import http.server, os, sys, threading, time

address, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lock = threading.Lock()


class Count(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with lock, open(path, "a") as file:
            file.write(f"{time.time():.3f} {self.path}\n")
            file.flush()
            os.fsync(file.fileno())
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer((address, port), Count).serve_forever()
