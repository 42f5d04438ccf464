"""ship_server.py DIRECTORY - a profiling server for a test: keeps each request as N.json (path,
headers) and N.body in DIRECTORY, and answers what DIRECTORY/answer says (a status, or `hang`). Its
port is in DIRECTORY/port."""
import http.server
import json
import os
import sys
import time

folder = sys.argv[1]


class Handler(http.server.BaseHTTPRequestHandler):
    count = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = open(folder + "/answer").read().strip()
        if answer == "hang":
            time.sleep(20)
            return
        if answer == "200":
            Handler.count += 1
            open(f"{folder}/{Handler.count}.body", "wb").write(body)
            with open(f"{folder}/{Handler.count}.json.new", "w") as file:
                json.dump({"path": self.path, "headers": dict(self.headers)}, file)
            os.replace(f"{folder}/{Handler.count}.json.new", f"{folder}/{Handler.count}.json")
        self.send_response(int(answer))
        self.end_headers()
        self.wfile.write(b"" if answer == "200" else b"not today\n")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
open(folder + "/port.new", "w").write(str(server.server_port))
os.replace(folder + "/port.new", folder + "/port")
server.serve_forever()
