"""The Python client: its worker by poll and by push, and its errors."""

import asyncio
import contextlib
import time

from pyzeebe import ZeebeClient, ZeebeWorker, create_insecure_channel
from pyzeebe.errors import (
    BusinessError,
    JobNotFoundError,
    ProcessDefinitionNotFoundError,
    ProcessInstanceNotFoundError,
    ProcessInvalidError,
    UnknownGrpcStatusCodeError,
)

from harness import ADDRESS, case, main, order


@contextlib.asynccontextmanager
async def working(**options):
    """A worker; its tasks are added before the body of the `async with` starts it by `go()`."""
    worker = ZeebeWorker(create_insecure_channel(grpc_address=ADDRESS), poll_retry_delay=1, **options)
    running = []
    try:
        yield worker, lambda: running.append(asyncio.create_task(worker.work()))
    finally:
        await worker.stop()
        for task in running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def deployed(name):
    client = ZeebeClient(create_insecure_channel(grpc_address=ADDRESS))
    await client.deploy_resource(order(name))
    return client


async def until(holds, seconds=20):
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


@case
async def deployment_and_creation_answer_with_keys():
    client = ZeebeClient(create_insecure_channel(grpc_address=ADDRESS))
    reply = await client.deploy_resource(order("p-keys"))
    process = reply.deployments[0]
    assert (process.bpmn_process_id, process.version) == ("p-keys", 1), process
    instance = await client.run_process("p-keys", {"a": 1})
    assert instance.process_definition_key == process.process_definition_key
    assert instance.process_instance_key >> 51 == 1 and instance.version == 1, instance
    await client.cancel_process_instance(instance.process_instance_key)


async def finish_twenty(name, **options):
    client = await deployed(name)
    charged, shipped = [], []
    async with working(**options) as (worker, go):

        @worker.task(task_type=f"{name}-charge")
        async def charge(number: int):
            charged.append(number)
            return {"charged": number % 2 == 0}

        @worker.task(task_type=f"{name}-ship")
        async def ship(number: int):
            shipped.append(number)
            return {}

        for number in range(10):
            await client.run_process(name, {"number": number})
        go()
        await asyncio.sleep(1)
        for number in range(10, 20):
            await client.run_process(name, {"number": number})
        await until(lambda: len(charged) == 20 and len(shipped) == 10)
        await asyncio.sleep(0.3)
    assert sorted(charged) == list(range(20)), charged
    assert sorted(shipped) == list(range(0, 20, 2)), shipped


@case
async def a_worker_that_polls_does_each_job_once():
    await finish_twenty("p-polls")


@case
async def a_worker_that_streams_does_each_job_once_backlog_included():
    await finish_twenty("p-streams", stream_enabled=True)


@case
async def a_pushed_job_comes_at_once():
    client = await deployed("p-pushed")
    came = []
    async with working(stream_enabled=True) as (worker, go):

        @worker.task(task_type="p-pushed-charge")
        async def charge():
            came.append(time.monotonic())
            return {}

        go()
        await asyncio.sleep(1)
        created = time.monotonic()
        await client.run_process("p-pushed")
        await until(lambda: came)
    assert came[0] - created < 0.5, came[0] - created


@case
async def an_exception_is_a_failed_job_that_is_tried_again():
    client = await deployed("p-fails")
    tries = []
    async with working() as (worker, go):

        @worker.task(task_type="p-fails-charge")
        async def charge():
            tries.append(time.monotonic())
            if len(tries) < 3:
                raise RuntimeError("not yet")
            return {}

        await client.run_process("p-fails")
        go()
        await until(lambda: len(tries) == 3)


@case
async def a_back_off_is_kept():
    client = await deployed("p-backs-off")
    tries = []

    async def later(error, job, controller):
        await controller.set_failure_status(str(error), retry_back_off_ms=1200)

    async with working() as (worker, go):

        @worker.task(task_type="p-backs-off-charge", exception_handler=later)
        async def charge():
            tries.append(time.monotonic())
            if len(tries) == 1:
                raise RuntimeError("later")
            return {}

        await client.run_process("p-backs-off")
        go()
        await until(lambda: len(tries) == 2)
    assert 1.1 < tries[1] - tries[0] < 4, tries


@case
async def a_business_error_is_caught_by_its_code():
    client = await deployed("p-throws")
    refunded = []
    async with working() as (worker, go):

        @worker.task(task_type="p-throws-charge")
        async def charge():
            raise BusinessError("NO_FUNDS")

        @worker.task(task_type="p-throws-refund")
        async def refund():
            refunded.append(True)
            return {}

        await client.run_process("p-throws")
        go()
        await until(lambda: refunded)


@case
async def only_the_variables_asked_for_are_sent():
    client = await deployed("p-fetches")
    seen = []
    async with working() as (worker, go):

        @worker.task(task_type="p-fetches-charge", variables_to_fetch=["b"])
        async def charge(**variables):
            seen.append(variables)
            return {}

        await client.run_process("p-fetches", {"a": 1, "b": [2, {"c": None}]})
        go()
        await until(lambda: seen)
    assert seen == [{"b": [2, {"c": None}]}], seen


@case
async def what_is_not_there_is_the_clients_own_error():
    client = ZeebeClient(create_insecure_channel(grpc_address=ADDRESS))
    for call, error in (
        (client.run_process("p-nowhere"), ProcessDefinitionNotFoundError),
        (client.cancel_process_instance(2251799999999999), ProcessInstanceNotFoundError),
        (client.run_process("p-nowhere", version=3), ProcessDefinitionNotFoundError),
        (client.zeebe_adapter.complete_job(2251799999999999, {}), JobNotFoundError),
    ):
        try:
            await call
        except error:
            continue
        raise AssertionError(f"expected {error}")


@case
async def a_broken_file_is_an_invalid_process():
    path = order("p-broken")
    text = open(path).read()
    open(path, "w").write(text.replace("</bpmn:definitions>", ""))
    client = ZeebeClient(create_insecure_channel(grpc_address=ADDRESS))
    try:
        await client.deploy_resource(path)
    except ProcessInvalidError:
        return
    raise AssertionError("it was deployed")


@case
async def topology_and_health_are_answered():
    client = ZeebeClient(create_insecure_channel(grpc_address=ADDRESS))
    topology = await client.topology()
    assert topology.cluster_size == 1 and topology.brokers[0].partitions[0].role.name == "LEADER", topology
    assert (await client.healthcheck()).status == 1


@case
async def what_the_engine_cannot_do_is_an_error_and_no_hang():
    client = await deployed("p-unimplemented")
    for call in (client.publish_message("m", "k"), client.run_process_with_result("p-unimplemented")):
        try:
            await call
        except UnknownGrpcStatusCodeError as error:
            assert "m87's engine cannot" in error.grpc_error.details(), error
            continue
        raise AssertionError("it was accepted")


main("pyzeebe")
