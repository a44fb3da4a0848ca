#!/usr/bin/env python3
"""kstatus, by which Flux and Helm judge an object, in the few rules of it that count for custom resources.

kstatus.py FILE...  each the output of `kubectl get KIND -A -w -o json --output-watch-events`: every version of every object that was
                  seen is judged, and each judgement is held against what m87 said in that version. Prints one line per object with the
                  judgements in their order; the last word is `ok`, or what does not fit.
"""
import json
import sys


def judge(thing):
    meta, status = thing["metadata"], thing.get("status") or {}
    if meta.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != meta["generation"]:
        return "InProgress"
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or []}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    # An object without conditions is Current to kstatus: only the default of observedGeneration keeps a fresh one from that.
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


def expected(thing):
    """What a person would say, by other fields than the ones that kstatus reads."""
    meta, status = thing["metadata"], thing.get("status") or {}
    if meta.get("deletionTimestamp"):
        return {"Terminating"}
    if status.get("observedGeneration", -1) != meta["generation"]:
        return {"InProgress"}
    if thing["kind"] == "GovernedRun":
        terminal = status.get("terminal")
        return {"InProgress"} if terminal is None else {"Current"} if terminal == "COMPLETE" else {"Failed"}
    if thing["kind"] == "GovernancePolicy":
        return {"Current"} if status.get("deployment") else {"InProgress", "Failed"}
    return {"Current", "Failed"} if status.get("sha256") else {"InProgress", "Failed"}


def documents(text):
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        if at < len(text):
            try:
                document, at = decoder.raw_decode(text, at)
            except json.JSONDecodeError:
                return  # the watch was cut in the middle of its last event
            yield document


def main():
    seen, wrong = {}, {}
    for event in (each for name in sys.argv[1:] for each in documents(open(name, encoding="utf-8").read())):
        thing = event["object"]
        if event["type"] in ("DELETED", "ERROR", "BOOKMARK"):
            continue
        name = "%s/%s/%s %s" % (thing["metadata"]["namespace"], thing["kind"], thing["metadata"]["name"], thing["metadata"]["uid"][:8])
        is_judged = judge(thing)
        words = seen.setdefault(name, [])
        if not words or words[-1] != is_judged:
            words.append(is_judged)
        if is_judged not in expected(thing):
            wrong[name] = "is %s to kstatus in version %s" % (is_judged, thing["metadata"]["resourceVersion"])
    for name, words in sorted(seen.items()):
        print(name, *words, wrong.get(name, "ok"))


if __name__ == "__main__":
    main()
