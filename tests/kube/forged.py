#!/usr/bin/env python3
"""Forged histories: history.py finds nothing in an honest one, and finds each of those that are broken in one way.

    forged.py

Prints a line for each forgery. Exit code 1 if one goes unnoticed, or if an invariant is there that no forgery breaks.
"""
import copy, json, os, re, sqlite3, subprocess, sys, tempfile

JUDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "history.py")
OPERATOR = "system:serviceaccount:m87-system:m87"
SPACE = "space"
GOOD, HALTED, FAILED, AGAIN, NOBODY = (f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 6))


def row(end_event, terminal, reason, receipt, **more):
    closing, end = {"ending": {"process": end_event}}, {"terminal": terminal, "reason": reason, "receiptHash": receipt}
    return {"state": {"sealed": [closing, end]}, "evidence": {}, "artifact": None, "attempts": [], "validations": [], **more}


def item(uid, name, terminal, reason, receipt, effect, **more):
    status = {"terminal": terminal, "reason": reason, "receipt": {"hash": receipt}, "effect": effect, **more}
    return {"metadata": {"uid": uid, "name": name, "namespace": "team-a"}, "status": status}


def pod(kind, uid, number, user=OPERATOR):
    return {"stage": "ResponseComplete", "verb": "create", "user": {"username": user}, "responseStatus": {"code": 201},
            "objectRef": {"resource": "pods", "namespace": "team-a"}, "requestObject": {"metadata": {"name": f"m87-{kind}-{uid}-{number}"}}}


def written(uid, name, status, user=OPERATOR):
    patch = [{"op": "test", "path": "/metadata/uid", "value": uid}, {"op": "add", "path": "/status", "value": status}]
    return {"stage": "ResponseComplete", "verb": "patch", "user": {"username": user}, "responseStatus": {"code": 200},
            "objectRef": {"resource": "governedruns", "subresource": "status", "namespace": "team-a", "name": name}, "requestObject": patch}


def honest():
    """One run that did it, one that was halted, one that failed at work, and one that was done before."""
    evidence = {part: {} for part in ("proposed", "validated", "contract", "redeemed", "execution")}
    history = {
        "runs": {
            GOOD: ["good", row("End_Complete", "COMPLETE", None, "r-good", evidence=dict(evidence), artifact={"sha256": "a"},
                               attempts=[{"number": 1}], validations=[{"number": 1}])],
            HALTED: ["halted", row("End_Halt", "HALT", "ActorNotPermitted", "r-halted")],
            FAILED: ["failed", row("End_Failed", "FAILED", "ToolFailed", "r-failed", evidence=dict(evidence), attempts=[{"number": 1}])],
        },
        "receipts": {GOOD: ["r-good", 3], HALTED: ["r-halted", 4], FAILED: ["r-failed", 5]},
        "log": [[at, {"run": uid, "event": {"opened": {"proposalHash": "p"}}}] for at, uid in enumerate((GOOD, HALTED, FAILED))]
        + [[at + 3, {"run": uid, "event": {"sealed": {"receiptHash": receipt}}}]
           for at, (uid, receipt) in enumerate(((GOOD, "r-good"), (HALTED, "r-halted"), (FAILED, "r-failed")))],
        "objects": [item(GOOD, "good", "COMPLETE", None, "r-good", "observed"),
                    item(HALTED, "halted", "HALT", "ActorNotPermitted", "r-halted", "none"),
                    item(FAILED, "failed", "FAILED", "ToolFailed", "r-failed", "dispatched"),
                    item(AGAIN, "again", "COMPLETE", None, "r-good", None, alreadyDone={"uid": GOOD, "name": "good"})],
        "effects": ["good", "failed"],
        "forgotten": [],
    }
    history["audit"] = [pod("tool", GOOD, 1), pod("check", GOOD, 1), pod("tool", FAILED, 1)]
    history["audit"] += [written(it["metadata"]["uid"], it["metadata"]["name"], it["status"]) for it in history["objects"]]
    return history


def sealed(history, uid):
    return history["runs"][uid][1]["state"]["sealed"]


def status(history, uid):
    return next(it["status"] for it in history["objects"] if it["metadata"]["uid"] == uid)


# WHAT: (the invariant that it breaks, what is said of it, how it is forged)
FORGERIES = {
    "one run has two effects": ("effect_at_most_once", "good: 2 effects", lambda h: h["effects"].append("good")),
    "one that nobody remembers has two": ("effect_at_most_once", "lost: 2 effects",
                                          lambda h: (h["effects"].extend(["lost", "lost"]), h["forgotten"].append("lost"))),
    "COMPLETE without an effect": ("complete_is_proven", "good: COMPLETE with 0 effects", lambda h: h["effects"].remove("good")),
    "COMPLETE without an artifact": ("complete_is_proven", "good: .*without an artifact", lambda h: h["runs"][GOOD][1].update(artifact=None)),
    "COMPLETE without having been judged": ("complete_is_proven", "good: .*without validated", lambda h: h["runs"][GOOD][1]["evidence"].pop("validated")),
    "HALT with an effect": ("halt_means_no_effect", "halted: HALT with 1 effects", lambda h: h["effects"].append("halted")),
    "HALT after a contract was redeemed": ("halt_means_no_effect", "halted: .*redeemed",
                                           lambda h: h["runs"][HALTED][1]["evidence"].update(redeemed={})),
    "a status that denies the effect": ("halt_means_no_effect", "failed: its status", lambda h: status(h, FAILED).update(effect="none")),
    "an effect without a contract": ("no_effect_without_contract", "failed: .*no contract", lambda h: h["runs"][FAILED][1]["evidence"].pop("redeemed")),
    "an effect of nobody's": ("no_effect_without_contract", "stranger: .*does not know", lambda h: h["effects"].append("stranger")),
    "a run without an end": ("eventually_terminal", "failed: ", lambda h: h["runs"][FAILED][1].update(state={"dispatched": [{}, {}]})),
    "an object without an end": ("eventually_terminal", "halted: not ended", lambda h: (status(h, HALTED).pop("terminal"), status(h, HALTED).pop("receipt"))),
    "a receipt is missing": ("terminal_iff_receipt", "failed: sealed .*receipt None", lambda h: h["receipts"].pop(FAILED)),
    "a receipt of a run that goes on": ("terminal_iff_receipt", "failed: sealed is None", lambda h: h["runs"][FAILED][1].update(state="open")),
    "another receipt is stored": ("terminal_iff_receipt", "good: .*other", lambda h: h["receipts"].update({GOOD: ["other", 3]})),
    "a status without its receipt": ("terminal_iff_receipt", "good: status", lambda h: status(h, GOOD).pop("receipt")),
    "a status said another end before": ("one_terminal", "good", lambda h: h["audit"].append(written(GOOD, "good", {"terminal": "HALT", "receipt": {"hash": "x"}}))),
    "a run is sealed twice": ("one_terminal", "sealed 2 times", lambda h: h["log"].append([6, {"run": GOOD, "event": {"sealed": {"receiptHash": "r-good"}}}])),
    "a status that the store does not bear out": ("status_is_a_projection", "halted: the store has", lambda h: status(h, HALTED).update(reason="BudgetExceeded")),
    "a mirror of what did not happen": ("status_is_a_projection", "again: the store has", lambda h: status(h, AGAIN).update(terminal="HALT")),
    "an object that the store does not know": ("status_is_a_projection", "nobody: the store",
                                               lambda h: h["objects"].append(item(NOBODY, "nobody", "HALT", None, "r", "none"))),
    "the process disagrees with the evidence": ("engine_and_core_agree", "failed: the process", lambda h: sealed(h, FAILED)[1].update(reason="EngineDisagreement")),
    "another end event": ("engine_and_core_agree", "good: End_Halt", lambda h: sealed(h, GOOD)[0].update(ending={"process": "End_Halt"})),
    "a hole in the log": ("every_opened_run_is_sealed", "holes", lambda h: h["log"].pop(1)),
    "opened and never sealed": ("every_opened_run_is_sealed", f"{FAILED}: opened", lambda h: h["log"].pop()),
    "sealed and never opened": ("every_opened_run_is_sealed", f"{NOBODY}: sealed",
                                lambda h: h["log"].append([6, {"run": NOBODY, "event": {"sealed": {"receiptHash": "r"}}}])),
    "the log has another receipt": ("every_opened_run_is_sealed", f"{GOOD}: the log", lambda h: h["log"][3][1]["event"]["sealed"].update(receiptHash="other")),
    "a pod that somebody else made": ("only_the_operator_makes_tool_pods_and_writes_status", "made by eve", lambda h: h["audit"].append(pod("tool", GOOD, 1, "eve"))),
    "a status that somebody else wrote": ("only_the_operator_makes_tool_pods_and_writes_status", "written by eve",
                                          lambda h: h["audit"].append(written(GOOD, "good", status(h, GOOD), "eve"))),
    "two pods of one attempt": ("one_pod_an_attempt", "made 2 times", lambda h: h["audit"].append(pod("tool", GOOD, 1))),
    "a pod of an attempt that nobody wrote down": ("one_pod_an_attempt", r"the store knows attempts \[1\]", lambda h: h["audit"].append(pod("tool", GOOD, 2))),
    "a pod of nobody's": ("one_pod_an_attempt", "does not know", lambda h: h["audit"].append(pod("check", NOBODY, 1))),
    "nothing was done": ("there is something to judge", "no effects", lambda h: h["effects"].clear()),
    "nothing was written down": ("there is something to judge", "no pods, no status writes", lambda h: h["audit"].clear()),
    "nobody ran": ("there is something to judge", "no runs", lambda h: h["runs"].clear()),
}


def judged(history, folder):
    """The exit code, and what history.py says of each invariant."""
    paths = {name: os.path.join(folder, name) for name in ("audit", "store", "objects", "effects")}
    if os.path.exists(paths["store"]):
        os.remove(paths["store"])
    store = sqlite3.connect(paths["store"])
    store.executescript("CREATE TABLE runs (uid, name, row); CREATE TABLE receipts (run_uid, hash, log_index); CREATE TABLE log (namespace_uid, idx, entry);")
    store.executemany("INSERT INTO runs VALUES (?, ?, ?)", [(uid, name, json.dumps(row)) for uid, (name, row) in history["runs"].items()])
    store.executemany("INSERT INTO receipts VALUES (?, ?, ?)", [(uid, *receipt) for uid, receipt in history["receipts"].items()])
    store.executemany("INSERT INTO log VALUES (?, ?, ?)", [(SPACE, at, json.dumps(entry)) for at, entry in history["log"]])
    store.commit()
    store.close()
    with open(paths["audit"], "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in history["audit"])
    with open(paths["objects"], "w") as file:
        json.dump({"items": history["objects"]}, file)
    with open(paths["effects"], "w") as file:
        file.writelines(f"1.000 /begin/{name}\n" for name in history["effects"])
    flags = [word for name, path in paths.items() for word in (f"--{name}", path)]
    done = subprocess.run([sys.executable, JUDGE, *flags, "--forgotten", *history["forgotten"]], capture_output=True, text=True)
    said = {}
    for line in done.stdout.splitlines():
        match = re.match(r"^(ok|FAILED) ([^:]+)(?:: (.*))?$", line)
        if match:
            said[match.group(2)] = (match.group(1), match.group(3) or "")
    if not done.stdout.endswith("end\n"):
        said["the whole is judged"] = ("FAILED", done.stderr)
    return done.returncode, said


def main():
    unnoticed = 0

    def tell(holds, what, why):
        nonlocal unnoticed
        unnoticed += not holds
        print(f"{'ok' if holds else 'FAILED'} {what}" + ("" if holds else f": {why}"))

    with tempfile.TemporaryDirectory() as folder:
        code, said = judged(honest(), folder)
        tell(code == 0 and said and all(word == "ok" for word, _ in said.values()), "nothing is found in an honest history", (code, said))
        for what, (invariant, says, forge) in FORGERIES.items():
            history = copy.deepcopy(honest())
            forge(history)
            code, found = judged(history, folder)
            word, why = found.get(invariant, ("absent", ""))
            tell(code == 1 and word == "FAILED" and re.search(says, why), f"{what} ({invariant})", (code, found))
        tried = {invariant for invariant, _, _ in FORGERIES.values()}
        tell(tried == set(said), "there is a forgery for each invariant", sorted(tried ^ set(said)))
    print(f"{len(FORGERIES)} forgeries, {unnoticed} failed")
    return 1 if unnoticed else 0


sys.exit(main())
