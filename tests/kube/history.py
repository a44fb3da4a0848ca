#!/usr/bin/env python3
"""Judges a whole history: what the API server wrote down, what the authority holds, what the objects say, and what was really done.

    history.py --audit AUDIT.LOG --store STORE.DB --objects OBJECTS.JSON --effects FILE [--namespace NAME] [--forgotten NAME...]

--store is a copy of the authority's SQLite; --objects is `kubectl get grun -A -o json`; --effects has a line `SECONDS /begin/RUN` for
each effect. --forgotten names runs that the store does not know, since it was restored from before them.
Prints `ok NAME` or `FAILED NAME: WHAT...` for each invariant, figures after `#`, and `end` last. Exit code 1 if one does not hold.
"""
import argparse, collections, json, re, sqlite3, sys

OPERATOR = "system:serviceaccount:m87-system:m87"
TOOL_POD = re.compile(r"^m87-(tool|check)-([0-9a-f-]{36})-([0-9]+)$")
END_OF = {"End_Complete": "COMPLETE", "End_Halt": "HALT", "End_RejManifest": "REJECT_MANIFEST", "End_Failed": "FAILED",
          "End_RejVerify": "REJECT_VERIFY"}


class History:
    """Everything that is known, by the uid of the run."""

    def __init__(self, arguments):
        self.forgotten = set(arguments.forgotten)
        objects = json.load(open(arguments.objects))["items"]
        self.objects = {item["metadata"]["uid"]: item for item in objects}
        store = sqlite3.connect(f"file:{arguments.store}?mode=ro", uri=True)
        self.runs = {uid: (name, json.loads(row)) for uid, name, row in store.execute("SELECT uid, name, row FROM runs")}
        self.receipts = {uid: (digest, index) for uid, digest, index in store.execute("SELECT run_uid, hash, log_index FROM receipts")}
        self.log = collections.defaultdict(list)
        for space, index, entry in store.execute("SELECT namespace_uid, idx, entry FROM log ORDER BY namespace_uid, idx"):
            self.log[space].append((index, json.loads(entry)))
        self.effects = collections.Counter(re.findall(r"^[0-9.]+ /begin/([a-z0-9-]+)$", open(arguments.effects).read(), re.M))
        self.pods, self.statuses, self.attempts_refused = [], [], 0
        self.read_audit(arguments.audit)

    def read_audit(self, path):
        for line in open(path):
            event = json.loads(line)
            if event.get("stage") != "ResponseComplete":
                continue
            reference = event.get("objectRef", {})
            done = event.get("responseStatus", {}).get("code", 0) in (200, 201)
            user = (event.get("impersonatedUser") or event["user"])["username"]
            body = event.get("requestObject") or {}
            if reference.get("resource") == "pods" and event["verb"] == "create" and not reference.get("subresource"):
                name = reference.get("name") or body.get("metadata", {}).get("name", "")
                match = TOOL_POD.match(name)
                if match and done:
                    self.pods.append((match.group(1), match.group(2), int(match.group(3)), user))
                elif match:
                    self.attempts_refused += 1
            if reference.get("resource") == "governedruns" and reference.get("subresource") == "status" and done:
                uid, status = status_of(body)
                self.statuses.append((reference["namespace"], reference["name"], uid, user, status))

    def named(self):
        """(name, row) of every run in the store."""
        return self.runs.items()


def status_of(body):
    """The uid and the status that a write names, as a JSON patch or as a whole object."""
    if isinstance(body, list):
        values = {operation.get("path"): operation.get("value") for operation in body}
        return values.get("/metadata/uid"), values.get("/status") or {}
    return body.get("metadata", {}).get("uid"), body.get("status") or {}


def sealed(row):
    """What the row says at the end: (terminal, reason, receipt hash, ending), or None."""
    state = row["state"]
    if not (isinstance(state, dict) and "sealed" in state):
        return None
    closing, end = state["sealed"]
    return end["terminal"], end.get("reason"), end["receiptHash"], closing["ending"]


def redeemed(row):
    return row["evidence"].get("redeemed") is not None


# -- the invariants: each yields what breaks it -----------------------------------------------------------------------------------

def one_terminal(history):
    """Neither the store, the log nor any status that was ever written names two ends of a run."""
    ends = collections.defaultdict(set)
    for namespace, name, uid, _, status in history.statuses:
        if status.get("terminal") is not None:
            ends[(namespace, name, uid)].add((status["terminal"], (status.get("receipt") or {}).get("hash")))
    for run, written in ends.items():
        if len(written) > 1:
            yield f"{run}: status was written with {sorted(map(str, written))}"
    for space, entries in history.log.items():
        seals = collections.Counter(entry["run"] for _, entry in entries if "sealed" in entry["event"])
        yield from (f"{run}: sealed {count} times in the log of {space}" for run, count in seals.items() if count > 1)


def no_effect_without_contract(history):
    by_name = {name: row for _, (name, row) in history.named()}
    for name, count in history.effects.items():
        row = by_name.get(name)
        if row is None and name not in history.forgotten:
            yield f"{name}: {count} effects of a run that the store does not know"
        if row is not None and not redeemed(row) and name not in history.forgotten:
            yield f"{name}: {count} effects, and no contract of it was redeemed"


def effect_at_most_once(history):
    for name, count in history.effects.items():
        if count > 1:
            yield f"{name}: {count} effects"


def halt_means_no_effect(history):
    for uid, (name, row) in history.named():
        end = sealed(row)
        if end and end[0] in ("HALT", "REJECT_MANIFEST"):
            if redeemed(row):
                yield f"{name}: {end[0]}, though a contract of it was redeemed"
            if history.effects[name] and name not in history.forgotten:
                yield f"{name}: {end[0]} with {history.effects[name]} effects"
    for uid, item in history.objects.items():
        status, name = item.get("status", {}), item["metadata"]["name"]
        if status.get("effect") == "none" and history.effects[name] and name not in history.forgotten:
            yield f"{name}: its status says that there was no effect, and there were {history.effects[name]}"


def complete_is_proven(history):
    for uid, (name, row) in history.named():
        end = sealed(row)
        if not end or end[0] != "COMPLETE":
            continue
        if history.effects[name] != 1:
            yield f"{name}: COMPLETE with {history.effects[name]} effects"
        evidence = row["evidence"]
        for part in ("proposed", "validated", "contract", "redeemed", "execution"):
            if evidence.get(part) is None:
                yield f"{name}: COMPLETE without {part} in its evidence"
        if row["artifact"] is None:
            yield f"{name}: COMPLETE without an artifact in the store"


def terminal_iff_receipt(history):
    for uid, (name, row) in history.named():
        end, receipt = sealed(row), history.receipts.get(uid)
        if (end is None) != (receipt is None):
            yield f"{name}: sealed is {end}, its receipt {receipt}"
        elif end and end[2] != receipt[0]:
            yield f"{name}: sealed with receipt {end[2]}, and {receipt[0]} is stored"
    for uid, item in history.objects.items():
        status, name = item.get("status", {}), item["metadata"]["name"]
        if (status.get("terminal") is None) != (status.get("receipt") is None):
            yield f"{name}: status has terminal {status.get('terminal')} and receipt {status.get('receipt')}"


def status_is_a_projection(history):
    for uid, item in history.objects.items():
        status, name = item.get("status", {}), item["metadata"]["name"]
        # One that was done before shows the run that did it, and has no row of its own.
        row = history.runs.get((status.get("alreadyDone") or {}).get("uid", uid))
        if row is None:
            if name not in history.forgotten:
                yield f"{name}: the store does not know it"
            continue
        end = sealed(row[1])
        if end and status.get("terminal") is not None and name not in history.forgotten:
            said = (status.get("terminal"), status.get("reason"), (status.get("receipt") or {}).get("hash"))
            if said != (end[0], end[1], end[2]):
                yield f"{name}: the store has {end[:3]}, its status {said}"


def engine_and_core_agree(history):
    for uid, (name, row) in history.named():
        end = sealed(row)
        if not end:
            continue
        if end[1] == "EngineDisagreement":
            yield f"{name}: the process reached an end that the evidence does not name"
        if "process" in (end[3] if isinstance(end[3], dict) else {}) and END_OF[end[3]["process"]] != end[0]:
            yield f"{name}: {end[3]['process']} was reached, and it is {end[0]}"


def every_opened_run_is_sealed(history):
    for space, entries in history.log.items():
        indexes = [index for index, _ in entries]
        if indexes != list(range(len(entries))):
            yield f"the log of {space} has holes: {indexes}"
        seen = {"opened": set(), "sealed": set()}
        for _, entry in entries:
            seen[next(iter(entry["event"]))].add(entry["run"])
        yield from (f"{run}: opened and never sealed" for run in seen["opened"] - seen["sealed"])
        yield from (f"{run}: sealed and never opened" for run in seen["sealed"] - seen["opened"])
        for index, entry in entries:
            if "sealed" in entry["event"] and history.receipts.get(entry["run"]) != (entry["event"]["sealed"]["receiptHash"], index):
                yield f"{entry['run']}: the log has another receipt than is stored"


def eventually_terminal(history):
    for uid, item in history.objects.items():
        if item.get("status", {}).get("terminal") is None:
            yield f"{item['metadata']['name']}: not ended"
    yield from (f"{name}: {row['state']}" for _, (name, row) in history.named() if sealed(row) is None)


def only_the_operator_makes_tool_pods_and_writes_status(history):
    yield from (f"pod m87-{kind}-{uid}-{number} was made by {user}" for kind, uid, number, user in history.pods if user != OPERATOR)
    yield from (f"status of {name} was written by {user}" for _, name, _, user, _ in history.statuses if user != OPERATOR)


def one_pod_an_attempt(history):
    """A pod is made once for an attempt, and each attempt is one that the authority wrote down first."""
    made = collections.Counter((kind, uid, number) for kind, uid, number, _ in history.pods)
    yield from (f"m87-{kind}-{uid}-{number} was made {count} times" for (kind, uid, number), count in made.items() if count > 1)
    for kind, uid, number in made:
        if uid not in history.runs:
            object_name = history.objects.get(uid, {}).get("metadata", {}).get("name")
            if object_name not in history.forgotten:
                yield f"m87-{kind}-{uid}-{number}: of a run that the store does not know"
            continue
        name, row = history.runs[uid]
        known = {attempt["number"] for attempt in row["attempts" if kind == "tool" else "validations"]}
        if number not in known and name not in history.forgotten:
            yield f"m87-{kind}-{uid}-{number}: the store knows attempts {sorted(known)}"


INVARIANTS = [one_terminal, no_effect_without_contract, effect_at_most_once, halt_means_no_effect, complete_is_proven, terminal_iff_receipt,
              status_is_a_projection, engine_and_core_agree, every_opened_run_is_sealed, eventually_terminal,
              only_the_operator_makes_tool_pods_and_writes_status, one_pod_an_attempt]


def main():
    parser = argparse.ArgumentParser()
    for name in ("--audit", "--store", "--objects", "--effects"):
        parser.add_argument(name, required=True)
    parser.add_argument("--forgotten", nargs="*", default=[])
    history = History(parser.parse_args())
    ends = collections.Counter("{} {}".format(*sealed(row)[:2]) if sealed(row) else "open" for _, (_, row) in history.named())
    print(f"# {len(history.objects)} objects, {len(history.runs)} runs in the store, {len(history.pods)} pods made, {len(history.statuses)} status writes, {sum(history.effects.values())} effects")
    print("# " + ", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    # What has nothing to judge proves nothing.
    nothing = [what for what, there in [("runs", history.runs), ("pods", history.pods), ("status writes", history.statuses), ("effects", history.effects)] if not there]
    broken = 0
    print(f"FAILED there is something to judge: no {', no '.join(nothing)}" if nothing else "ok there is something to judge")
    for invariant in INVARIANTS:
        found = list(invariant(history))
        broken += bool(found)
        print(f"FAILED {invariant.__name__}: {'; '.join(found[:8])}" if found else f"ok {invariant.__name__}")
    print("end")
    return 1 if broken or nothing else 0


sys.exit(main())
