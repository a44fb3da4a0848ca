"""The Go command line, as released: every command that an operator would type."""

import json
import os
import re
import subprocess
import time

from harness import ADDRESS, case, main, order

NOBODY = "2251799999999999"


def zbctl(*arguments, ok=True, timeout=30):
    command = [os.environ["ZBCTL"], "--insecure", "--address", ADDRESS, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode == 0) == ok, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    if not ok:
        return done.stderr
    return json.loads(done.stdout) if done.stdout.lstrip().startswith("{") else done.stdout


def start(name):
    """An instance of a process of its own, and its first job."""
    zbctl("deploy", "resource", order(name))
    instance = zbctl("create", "instance", name, "--variables", '{"amount": 7}')["processInstanceKey"]
    return instance, activate(f"{name}-charge")


def activate(job_type, *arguments):
    jobs = zbctl("activate", "jobs", job_type, *arguments)["jobs"]
    assert len(jobs) == 1, jobs
    return jobs[0]


def nothing(job_type):
    assert zbctl("--requestTimeout", "1s", "activate", "jobs", job_type)["jobs"] == []


@case
def status_shows_one_healthy_broker():
    shown = zbctl("status")
    for part in ("Cluster size: 1", "Partitions count: 1", "Replication factor: 1", "Gateway version: 8.6.0", "Leader, Healthy"):
        assert part in shown, shown


@case
def an_unchanged_file_keeps_its_version_and_a_changed_one_gets_the_next():
    path = order("z-versions")
    deployed = lambda: zbctl("deploy", "resource", path)["deployments"][0]["process"]
    first, again = deployed(), deployed()
    assert first["version"] == 1 and first == again, (first, again)
    text = open(path).read()
    open(path, "w").write(text.replace("EUR", "CHF"))
    assert deployed()["version"] == 2
    open(path, "w").write(text)
    assert deployed()["version"] == 3, "equal to an older one, not to the latest"


@case
def a_broken_file_is_refused_with_its_name_and_leaves_nothing():
    path = order("z-broken")
    text = open(path).read()
    open(path, "w").write(text.replace('type="z-broken-ship"', 'type=""'))
    error = zbctl("deploy", "resource", path, ok=False)
    assert "InvalidArgument" in error and "Command 'CREATE' rejected with code 'INVALID_ARGUMENT'" in error, error
    assert os.path.basename(path) in error and "Element: ship" in error, error
    assert "NotFound" in zbctl("create", "instance", "z-broken", ok=False)


@case
def an_order_runs_to_its_end():
    instance, job = start("z-runs")
    assert job["processInstanceKey"] == instance and job["customHeaders"] == '{"currency":"EUR"}', job
    assert json.loads(job["variables"]) == {"amount": 7} and job["retries"] == 3 and job["worker"] == "zbctl", job
    zbctl("complete", "job", job["key"], "--variables", '{"charged": true}')
    ship = activate("z-runs-ship")
    assert json.loads(ship["variables"]) == {"amount": 7, "charged": True}, ship
    zbctl("complete", "job", ship["key"])
    assert "NotFound" in zbctl("cancel", "instance", instance, ok=False)


@case
def a_job_completed_twice_is_not_found():
    _, job = start("z-twice")
    zbctl("complete", "job", job["key"])
    error = zbctl("complete", "job", job["key"], ok=False)
    expected = (
        f"rpc error: code = NotFound desc = Command 'COMPLETE' rejected with code 'NOT_FOUND': "
        f"Expected to complete job with key '{job['key']}', but no such job was found"
    )
    assert expected in error, error


@case
def golden_texts_of_what_is_not_there():
    expected = {
        ("update", "timeout", NOBODY, "--timeout", "1000"): f"Command 'UPDATE_TIMEOUT' rejected with code 'NOT_FOUND': Expected to update job deadline with key '{NOBODY}', but no such job was found",
        ("update", "retries", NOBODY, "--retries", "1"): f"Command 'UPDATE_RETRIES' rejected with code 'NOT_FOUND': Expected to update retries for job with key '{NOBODY}', but no such job was found",
        ("fail", "job", NOBODY, "--retries", "1"): f"Command 'FAIL' rejected with code 'NOT_FOUND': Expected to fail job with key '{NOBODY}', but no such job was found",
        ("resolve", "incident", NOBODY): f"Command 'RESOLVE' rejected with code 'NOT_FOUND': Expected to resolve incident with key '{NOBODY}', but no such incident was found",
        ("create", "instance", "nope"): "Command 'CREATE' rejected with code 'NOT_FOUND': Expected to find process definition with process ID 'nope', but none found",
        ("set", "variables", NOBODY, "--variables", "{}"): f"Command 'UPDATE' rejected with code 'NOT_FOUND': Expected to update variables for element with key '{NOBODY}', but no such element was found",
    }
    for command, text in expected.items():
        error = zbctl(*command, ok=False)
        assert f"rpc error: code = NotFound desc = {text}" in error, error


@case
def a_failed_job_waits_for_its_back_off():
    _, job = start("z-backs-off")
    failed = time.monotonic()
    zbctl("fail", "job", job["key"], "--retries", "2", "--retryBackoff", "1500ms", "--errorMessage", "later")
    again = activate("z-backs-off-charge")
    assert time.monotonic() - failed > 1.4 and again["retries"] == 2 and again["key"] == job["key"], again


@case
def a_thrown_error_is_caught_by_its_code():
    _, job = start("z-throws")
    zbctl("throwError", "job", job["key"], "--errorCode", "NO_FUNDS", "--errorMessage", "empty")
    activate("z-throws-refund")
    nothing("z-throws-charge")


@case
def a_job_without_retries_waits_for_its_incident_to_be_resolved():
    instance, job = start("z-incident")
    before = int(zbctl("set", "variables", instance, "--variables", '{"mark": 1}', "-o", "json")["key"])
    zbctl("fail", "job", job["key"], "--retries", "0", "--errorMessage", "broken")
    nothing("z-incident-charge")
    # Keys are given out in order; nothing else happens on this engine now.
    incident = str(before + 1)
    error = zbctl("resolve", "incident", incident, ok=False)
    assert "FailedPrecondition" in error or "InvalidArgument" in error, error
    zbctl("update", "retries", job["key"], "--retries", "1")
    zbctl("resolve", "incident", incident)
    assert activate("z-incident-charge")["key"] == job["key"]
    assert "NotFound" in zbctl("resolve", "incident", incident, ok=False)


@case
def a_job_whose_time_is_up_is_handed_out_again_and_a_longer_time_holds_it():
    _, job = start("z-times-out")
    zbctl("update", "timeout", job["key"], "--timeout", "1000")
    updated = time.monotonic()
    again = activate("z-times-out-charge", "--timeout", "1s")
    assert again["key"] == job["key"] and again["retries"] == 3, again
    assert 0.8 < time.monotonic() - updated < 5
    zbctl("update", "timeout", job["key"], "--timeout", "60000")
    time.sleep(1.2)
    nothing("z-times-out-charge")
    zbctl("complete", "job", job["key"])


@case
def set_variables_are_seen_by_the_next_job():
    instance, job = start("z-sets")
    zbctl("set", "variables", instance, "--variables", '{"amount": 9007199254740993, "note": "ü"}')
    zbctl("complete", "job", job["key"], "--variables", '{"charged": true}')
    variables = activate("z-sets-ship")["variables"]
    assert '"amount":9007199254740993' in variables and json.loads(variables)["note"] == "ü", variables


@case
def an_integer_that_would_lose_digits_is_refused():
    _, job = start("z-malformed")
    error = zbctl("complete", "job", job["key"], "--variables", '{"a": 99999999999999999999}', ok=False)
    assert "InvalidArgument" in error and "99999999999999999999 does not fit 64 bits" in error, error
    zbctl("complete", "job", job["key"], "--variables", '{"a": 9223372036854775807}')


@case
def a_cancelled_instance_takes_its_jobs_with_it():
    instance, job = start("z-cancels")
    zbctl("cancel", "instance", instance)
    assert "NotFound" in zbctl("complete", "job", job["key"], ok=False)
    nothing("z-cancels-charge")


@case
def a_poll_for_nothing_ends_empty_before_its_deadline():
    started = time.monotonic()
    nothing("z-nothing")
    assert time.monotonic() - started < 1.2
    started = time.monotonic()
    assert zbctl("--requestTimeout", "3s", "activate", "jobs", "z-nothing")["jobs"] == []
    assert 2 < time.monotonic() - started < 3.5


@case
def a_job_is_not_lost_to_a_poll_that_was_killed():
    zbctl("deploy", "resource", order("z-killed"))
    command = [os.environ["ZBCTL"], "--insecure", "--address", ADDRESS, "activate", "jobs", "z-killed-charge"]
    for _ in range(3):
        poll = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        poll.kill()
        poll.wait()
    zbctl("create", "instance", "z-killed")
    activate("z-killed-charge")


@case
def a_worker_of_zbctl_works():
    zbctl("deploy", "resource", order("z-worker"))
    command = [os.environ["ZBCTL"], "--insecure", "--address", ADDRESS, "create", "worker", "z-worker-charge", "--handler", "cat"]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        zbctl("create", "instance", "z-worker", "--variables", '{"charged": true}')
        activate("z-worker-ship")
    finally:
        worker.kill()
        worker.wait()


@case
def what_the_engine_cannot_do_is_said_by_name():
    for command in (["publish", "message", "m", "--correlationKey", "k"], ["broadcast", "signal", "s"]):
        error = zbctl(*command, ok=False)
        assert re.search(r"Unimplemented desc = m87's engine cannot (publish a message|broadcast a signal)", error), error


main("zbctl")
