#!/usr/bin/env python3
"""Names the keys under which etcd has, or had since it was last compacted, a value that holds one of the texts, plain or in base64.

    etcd.py URL TEXT...
"""
import base64, json, sys, urllib.request

url, texts = sys.argv[1], [text.encode() for text in sys.argv[2:]]
FIRST = base64.b64encode(b"\0").decode()  # with itself as the end, every key


def spellings(text):
    """The text, and what base64 makes of it wherever in a longer one it stands."""
    yield text
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + text)
        yield coded[4 if before else 0 : -4]


wanted = [spelling for text in texts for spelling in spellings(text)]
assert wanted and all(len(spelling) >= 16 for spelling in wanted), "a text too short to be nobody else's"


def ask(path, body):
    return urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(body).encode()), timeout=60)


seen, found = set(), set()


def look(pair):
    key, value = base64.b64decode(pair["key"]), base64.b64decode(pair.get("value", ""))
    seen.add(key)
    if any(spelling in value or spelling in key for spelling in wanted):
        found.add(key.decode(errors="replace"))


def all_now():
    start = FIRST
    while True:
        answer = json.load(ask("/v3/kv/range", {"key": start, "range_end": FIRST, "limit": 200}))
        for pair in answer.get("kvs", []):
            look(pair)
        if not answer.get("more"):
            return int(answer["header"]["revision"])
        start = base64.b64encode(base64.b64decode(answer["kvs"][-1]["key"]) + b"\0").decode()


def history(since, until):
    """Every version from a revision on; where that was compacted, from the first that is left."""
    body = {"create_request": {"key": FIRST, "range_end": FIRST, "start_revision": since}}
    with ask("/v3/watch", body) as lines:
        for line in lines:
            result = json.loads(line)["result"]
            if result.get("canceled"):
                return history(int(result["compact_revision"]), until)
            pairs = [event["kv"] for event in result.get("events", [])]
            for pair in pairs:
                look(pair)
            if any(int(pair["mod_revision"]) >= until for pair in pairs):
                return


history(1, all_now())
assert len(seen) > 100, f"{len(seen)} keys: that is no cluster"
print("\n".join(sorted(found)))
